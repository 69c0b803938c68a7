# SPDX-License-Identifier: MIT
# Says what to write when a target links seenby::<component> and no find_package asked for that component.

function(_seenby_hint_in directory components)
  get_property(targets DIRECTORY "${directory}" PROPERTY BUILDSYSTEM_TARGETS)
  get_property(asked_for GLOBAL PROPERTY _SEENBY_COMPONENTS_FOUND)
  foreach(target IN LISTS targets)
    get_target_property(links ${target} LINK_LIBRARIES)
    foreach(component IN LISTS components)
      if("seenby::${component}" IN_LIST links AND NOT component IN_LIST asked_for)
        message(FATAL_ERROR "${target} links seenby::${component}: write find_package(seenby REQUIRED COMPONENTS ${component})")
      endif()
    endforeach()
  endforeach()
  get_property(below DIRECTORY "${directory}" PROPERTY SUBDIRECTORIES)
  foreach(folder IN LISTS below)
    _seenby_hint_in("${folder}" "${components}")
  endforeach()
endfunction()

# Looks when everything is configured: another find_package may still ask for the component.
function(_seenby_hint_later components)
  get_property(waiting GLOBAL PROPERTY _SEENBY_HINT_WAITING)
  if(NOT waiting AND components)
    set_property(GLOBAL PROPERTY _SEENBY_HINT_WAITING TRUE)
    cmake_language(EVAL CODE "cmake_language(DEFER DIRECTORY [[${CMAKE_SOURCE_DIR}]] CALL _seenby_hint_in [[${CMAKE_SOURCE_DIR}]] [[${components}]])")
  endif()
endfunction()
