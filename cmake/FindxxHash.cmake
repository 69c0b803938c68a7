# SPDX-License-Identifier: MIT
# Finds xxhash.h. seenby inlines it, so nothing is linked: xxHash::xxhash carries the include folder alone.
#   xxHash_FOUND, xxHash_VERSION, xxHash_INCLUDE_DIR

find_path(xxHash_INCLUDE_DIR xxhash.h DOC "The folder that holds xxhash.h")
mark_as_advanced(xxHash_INCLUDE_DIR)

if(xxHash_INCLUDE_DIR)
  set(xxHash_VERSION "")
  foreach(_xxhash_part MAJOR MINOR RELEASE)
    file(STRINGS "${xxHash_INCLUDE_DIR}/xxhash.h" _xxhash_line
         REGEX "^# *define +XXH_VERSION_${_xxhash_part} +[0-9]+" LIMIT_COUNT 1)
    string(REGEX REPLACE ".*XXH_VERSION_${_xxhash_part} +([0-9]+).*" "\\1" _xxhash_number "${_xxhash_line}")
    list(APPEND xxHash_VERSION "${_xxhash_number}")
  endforeach()
  list(JOIN xxHash_VERSION "." xxHash_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  xxHash
  REQUIRED_VARS xxHash_INCLUDE_DIR
  VERSION_VAR xxHash_VERSION
  REASON_FAILURE_MESSAGE "seenby needs xxhash.h (Debian and Ubuntu: apt-get install libxxhash-dev)")

if(xxHash_FOUND AND NOT TARGET xxHash::xxhash)
  add_library(xxHash::xxhash INTERFACE IMPORTED)
  set_target_properties(xxHash::xxhash PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${xxHash_INCLUDE_DIR}")
endif()
