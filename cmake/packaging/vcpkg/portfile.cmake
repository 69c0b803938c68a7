# SPDX-License-Identifier: MIT
# An overlay port over the sources that it lies in: vcpkg install seenby[redis] --overlay-ports=cmake/packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

# vcpkg's own "core" is every port's plain form: seenby::core is the feature "compiled".
vcpkg_check_features(
  OUT_FEATURE_OPTIONS options
  FEATURES compiled SEENBY_WITH_CORE
           ingest SEENBY_WITH_INGEST
           lmdb SEENBY_WITH_LMDB
           postgres SEENBY_WITH_POSTGRES
           prometheus SEENBY_WITH_PROMETHEUS
           redis SEENBY_WITH_REDIS
           redis SEENBY_WITH_REDIS_ARTICLE
           sqlite SEENBY_WITH_SQLITE
           text SEENBY_WITH_TEXT
           token SEENBY_WITH_TOKEN)
if(FEATURES STREQUAL "core")
  set(VCPKG_BUILD_TYPE release) # headers only
endif()

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${options} -DSEENBY_INSTALL=ON -DSEENBY_BUILD_TOOL=OFF
          -DSEENBY_BUILD_TESTS=OFF -DSEENBY_BUILD_EXAMPLES=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/seenby)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
