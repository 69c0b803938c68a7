# SPDX-License-Identifier: MIT
# The functions that define, warn about, export and install seenby's targets.

# Warnings are private to our targets: a program that links seenby keeps its own.
function(seenby_target_warnings target)
  target_compile_options(
    ${target}
    PRIVATE -Wall
            -Wextra
            -Wpedantic
            -Wconversion
            -Wsign-conversion
            -Wshadow
            -Wold-style-cast
            -Wcast-align
            -Wnon-virtual-dtor
            -Wundef)
  if(SEENBY_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

# An executable of ours: C++20, warnings, linked with seenby and whatever else is given.
function(seenby_add_executable target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE seenby::seenby ${arg_LINK})
  target_compile_features(${target} PRIVATE cxx_std_20)
  seenby_target_warnings(${target})
endfunction()

# The folders under src/ that are components: all but the tool.
function(seenby_list_components out)
  file(GLOB lists CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*/CMakeLists.txt")
  set(names)
  foreach(list IN LISTS lists)
    get_filename_component(folder "${list}" DIRECTORY)
    get_filename_component(name "${folder}" NAME)
    if(NOT name STREQUAL "tool")
      list(APPEND names ${name})
    endif()
  endforeach()
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

# seenby::seenby: the headers that need only xxHash. A component's headers belong to the component.
function(seenby_add_core)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/seenby/*.hpp")
  seenby_list_components(components)
  foreach(component IN LISTS components)
    list(FILTER headers EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/include/seenby/${component}/")
  endforeach()
  add_library(seenby INTERFACE)
  add_library(seenby::seenby ALIAS seenby)
  target_sources(seenby INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers})
  target_compile_features(seenby INTERFACE cxx_std_20)
  target_link_libraries(seenby INTERFACE xxHash::xxhash)
  set_target_properties(seenby PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
endfunction()

# A component's switch: AUTO builds it where its dependencies are found and says so where they are not; ON requires it.
# Embedded in another project, components are OFF until asked for.
function(seenby_add_components)
  seenby_list_components(components)
  set(built)
  foreach(component IN LISTS components)
    string(TOUPPER ${component} upper)
    if(PROJECT_IS_TOP_LEVEL)
      set(default AUTO)
    else()
      set(default OFF)
    endif()
    set(SEENBY_WITH_${upper} ${default} CACHE STRING "Build seenby::${component}: AUTO, ON or OFF")
    set_property(CACHE SEENBY_WITH_${upper} PROPERTY STRINGS AUTO ON OFF)
    if(SEENBY_WITH_${upper} STREQUAL "OFF")
      continue()
    endif()
    add_subdirectory(src/${component})
    if(TARGET seenby_${component})
      list(APPEND built ${component})
    elseif(SEENBY_WITH_${upper} STREQUAL "AUTO")
      message(STATUS "seenby::${component} SKIPPED: its dependencies are not installed")
    else()
      message(FATAL_ERROR "seenby::${component} was asked for, but its dependencies are not installed")
    endif()
  endforeach()
  set(SEENBY_COMPONENTS "${built}" PARENT_SCOPE)
endfunction()

# Defines and exports seenby::<name>, called from src/<name>/CMakeLists.txt once its dependencies are found:
#   seenby_add_component(redis SOURCES a.cpp PRIVATE PkgConfig::hiredis PUBLIC ... FIND "the lines that find them again"
#                        REQUIRES hiredis DEFINES MACRO EXPORTS "seenby::Name::*")
# Its public headers are include/seenby/<name>/*.hpp. FIND is put into the installed package file, since a static
# library needs its dependencies at the consumer's link as well; find_dependency and PkgConfig are loaded there.
# REQUIRES are the same as pkg-config modules, DEBIAN as Debian's packages. DEFINES are for those who link it. A shared
# library exports the namespace seenby::<name>, and EXPORTS.
function(seenby_add_component name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FIND" "SOURCES;PRIVATE;PUBLIC;DEFINES;REQUIRES;EXPORTS;DEBIAN")
  set(target seenby_${name})
  add_library(${target} ${arg_SOURCES})
  add_library(seenby::${name} ALIAS ${target})
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/seenby/${name}/*.hpp")
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers})
  target_link_libraries(${target} PUBLIC seenby ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  target_compile_definitions(${target} INTERFACE ${arg_DEFINES})
  # Until 1.0 a minor version may break its users.
  set_target_properties(
    ${target} PROPERTIES EXPORT_NAME ${name} VERIFY_INTERFACE_HEADER_SETS ON POSITION_INDEPENDENT_CODE ON DEFINE_SYMBOL ""
                         VISIBILITY_INLINES_HIDDEN ON VERSION ${PROJECT_VERSION}
                         SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  seenby_target_warnings(${target})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY" AND UNIX AND NOT APPLE)
    seenby_export_only(${target} "seenby::${name}::*" ${arg_EXPORTS})
  endif()
  if(SEENBY_INSTALL)
    set(destination "${CMAKE_INSTALL_LIBDIR}/cmake/seenby")
    set_property(GLOBAL PROPERTY SEENBY_DEBIAN_${name} "${arg_DEBIAN}")
    install(
      TARGETS ${target} EXPORT seenby-${name} ARCHIVE COMPONENT ${name} LIBRARY COMPONENT ${name}
      FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT ${name})
    install(EXPORT seenby-${name} NAMESPACE seenby:: FILE seenby-${name}-targets.cmake DESTINATION "${destination}"
            COMPONENT ${name})
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/package/seenby-${name}.cmake" @ONLY CONTENT
         "# Finds what seenby::${name} needs, then defines it.\n@arg_FIND@\ninclude(\"\${CMAKE_CURRENT_LIST_DIR}/seenby-${name}-targets.cmake\")\nset_property(GLOBAL APPEND PROPERTY _SEENBY_COMPONENTS_FOUND ${name})\n")
    install(FILES "${PROJECT_BINARY_DIR}/package/seenby-${name}.cmake" DESTINATION "${destination}" COMPONENT ${name})
    list(JOIN arg_REQUIRES " " requires)
    list(TRANSFORM arg_DEFINES PREPEND "-D" OUTPUT_VARIABLE flags)
    if(type STREQUAL "STATIC_LIBRARY")
      seenby_install_pkgconfig(seenby-${name} ${name} "Requires: seenby ${requires}"
                               "Libs: -L\${libdir} -l${target} -pthread" "Cflags: ${flags} -I\${includedir}")
    else()
      seenby_install_pkgconfig(seenby-${name} ${name} "Requires: seenby" "Requires.private: ${requires}"
                               "Libs: -L\${libdir} -l${target}" "Cflags: ${flags} -I\${includedir}")
    endif()
  endif()
endfunction()

# Leaves of a shared library's symbols those that match the patterns, and their run-time type information: what
# templates and inline functions left there belongs to the code that includes them.
function(seenby_export_only target)
  set(lines)
  foreach(pattern IN LISTS ARGN)
    string(APPEND lines "    ${pattern};\n    typeinfo?for?${pattern};\n    typeinfo?name?for?${pattern};\n"
           "    vtable?for?${pattern};\n")
  endforeach()
  set(script "${CMAKE_CURRENT_BINARY_DIR}/${target}.map")
  file(CONFIGURE OUTPUT "${script}" @ONLY CONTENT "{\n  global: extern \"C++\" {\n@lines@  };\n  local: *;\n};\n")
  target_link_options(${target} PRIVATE "LINKER:--version-script=${script}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
endfunction()

# Installs NAME.pc with the lines given, as part of an install component. Its paths follow the file, wherever the
# package is moved.
function(seenby_install_pkgconfig name component)
  file(RELATIVE_PATH prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" prefix "${prefix}")
  list(JOIN ARGN "\n" lines)
  file(
    CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/package/${name}.pc" @ONLY CONTENT
    "prefix=\${pcfiledir}/@prefix@
libdir=\${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: @name@
Description: @PROJECT_DESCRIPTION@ (needs xxhash.h)
Version: @PROJECT_VERSION@
@lines@
")
  install(FILES "${PROJECT_BINARY_DIR}/package/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
          COMPONENT ${component})
endfunction()

# The core's export, the package's config and version files, and the find module that they need.
function(seenby_install_package)
  include(CMakePackageConfigHelpers)
  set(destination "${CMAKE_INSTALL_LIBDIR}/cmake/seenby")
  install(TARGETS seenby EXPORT seenby FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT dev)
  install(EXPORT seenby NAMESPACE seenby:: FILE seenby-targets.cmake DESTINATION "${destination}" COMPONENT dev)
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/seenby-config.cmake.in"
                                "${PROJECT_BINARY_DIR}/package/seenby-config.cmake" INSTALL_DESTINATION "${destination}")
  # Until 1.0 a minor version may break its users. The core is headers: any architecture may use it.
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/seenby-config-version.cmake"
                                   COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
  install(FILES "${PROJECT_BINARY_DIR}/package/seenby-config.cmake"
                "${PROJECT_BINARY_DIR}/package/seenby-config-version.cmake"
                "${PROJECT_SOURCE_DIR}/cmake/FindxxHash.cmake"
                "${PROJECT_SOURCE_DIR}/cmake/SeenbyComponentHint.cmake" DESTINATION "${destination}" COMPONENT dev)
  seenby_install_pkgconfig(seenby dev "Cflags: -I\${includedir}")
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT dev)
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/gdb/seenby.py" DESTINATION "${CMAKE_INSTALL_DATADIR}/seenby/gdb" COMPONENT dev)
endfunction()
