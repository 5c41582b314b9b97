# SPDX-License-Identifier: MIT
# tarn_layer(NAME MATCH GLOB…)
# Makes the target tarn_NAME, with _ for each / of NAME: an OBJECT library of the sources that match, or an INTERFACE
# library if there are only headers. Files of some libraries only (override*, shared_*, program_start) are left out unless
# a glob begins like them. tools/check_layers.py enforces the order of the layers.
function(tarn_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "MATCH")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tarn_layer(${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  string(REPLACE "/" "_" name ${name})
  file(GLOB sources CONFIGURE_DEPENDS ${arg_MATCH})
  if(NOT arg_MATCH MATCHES "/(override|shared_|program_start)")
    list(FILTER sources EXCLUDE REGEX "/(override|shared_|program_start)[^/]*$")
  endif()

  # Files of the hardened build only.
  set(all_sources ${sources})
  list(FILTER sources EXCLUDE REGEX "/hardened_[^/]*$")

  if(sources)
    add_library(tarn_${name} OBJECT ${sources})
    target_link_libraries(tarn_${name} PUBLIC tarn_engine_options)
    # No unity build where users' libraries are built: each file sees only what it includes.
    if(NOT TARN_ENGINE_UNITY)
      set_target_properties(tarn_${name} PROPERTIES UNITY_BUILD OFF)
    endif()
    # tests/abi reads the types of what is exported from the debugging information, and gdb those of malloc, which it calls
    # for every string that it passes to a function of the program. -g1 has no types.
    if(TARN_BUILD_TESTS OR CMAKE_CXX_FLAGS_RELEASE MATCHES "-g1")
      set(exporting ${sources})
      list(FILTER exporting INCLUDE REGEX "/(api|override|[a-z]+_abi|live_slots|pages)\\.cpp$")
      set_source_files_properties(${exporting} PROPERTIES COMPILE_OPTIONS -g2)
    endif()
    # The same sources, compiled for the hardened build.
    if(NOT TARN_SANITIZE)
      add_library(tarn_${name}_hardened OBJECT EXCLUDE_FROM_ALL ${all_sources})
      target_link_libraries(tarn_${name}_hardened PRIVATE tarn_engine_options)
      target_compile_definitions(tarn_${name}_hardened PRIVATE TARN_HARDENED=1)
      if(NOT TARN_ENGINE_UNITY)
        set_target_properties(tarn_${name}_hardened PROPERTIES UNITY_BUILD OFF)
      endif()
    endif()
  else()
    add_library(tarn_${name} INTERFACE)
    target_link_libraries(tarn_${name} INTERFACE tarn_engine_options)
  endif()
endfunction()

# tarn_layer_objects(OUT SUFFIX LAYER…) sets OUT to the object files of the layers. SUFFIX is _hardened or empty.
function(tarn_layer_objects out suffix)
  set(objects)
  foreach(layer IN LISTS ARGN)
    string(REPLACE "/" "_" layer ${layer})
    get_target_property(type tarn_${layer} TYPE)
    if(type STREQUAL "OBJECT_LIBRARY")
      list(APPEND objects $<TARGET_OBJECTS:tarn_${layer}${suffix}>)
    endif()
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()
