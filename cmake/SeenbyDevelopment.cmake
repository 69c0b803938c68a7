# SPDX-License-Identifier: MIT
# What only those who build seenby itself want: output folders, ccache, sanitizers. Not read when embedded.

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_EXTENSIONS OFF)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(SEENBY_CCACHE ccache)
mark_as_advanced(SEENBY_CCACHE)
if(SEENBY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the source folder: what one clone compiled, another clone has.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
                                  "${SEENBY_CCACHE}")
endif()

if(SEENBY_SANITIZE)
  add_compile_options("-fsanitize=${SEENBY_SANITIZE}" -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options("-fsanitize=${SEENBY_SANITIZE}")
endif()

# The pages of the public headers: cmake --build BUILD --target docs
add_custom_target(docs COMMAND "${PROJECT_SOURCE_DIR}/cmake/docs.sh" "${PROJECT_BINARY_DIR}/docs" VERBATIM)
