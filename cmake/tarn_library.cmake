# SPDX-License-Identifier: MIT
# tarn_library(TARGET OUTPUT NAME EXPORTED NAME LAYERS LAYER… [EXPORTS MAP] [HARDENED])
# A library of the layers' objects: shared where EXPORTS gives its version script, static elsewhere. OUTPUT is
# its file's name without lib; EXPORTED its name behind tarn:: for users of the package and in this build. HARDENED: of
# the objects that are compiled with TARN_HARDENED=1.
function(tarn_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "HARDENED" "OUTPUT;EXPORTED;EXPORTS" "LAYERS")
  set(suffix)
  if(arg_HARDENED)
    set(suffix _hardened)
  endif()
  tarn_layer_objects(objects "${suffix}" ${arg_LAYERS})
  if(arg_EXPORTS)
    add_library(${target} SHARED ${objects})
    tarn_link_without_libstdcxx(${target} ${arg_EXPORTS})
    # The engine's fork handlers are the first ones: they run last before a fork, and first after it. One library of a
    # process can have this flag, so no other of tarn's has it.
    target_link_options(${target} PRIVATE LINKER:-z,initfirst)
  else()
    add_library(${target} STATIC ${objects})
  endif()
  add_library(tarn::${arg_EXPORTED} ALIAS ${target})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:tarn_sanitizers> Threads::Threads)
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${arg_OUTPUT} EXPORT_NAME ${arg_EXPORTED} LINKER_LANGUAGE CXX)
  set_property(GLOBAL APPEND PROPERTY TARN_LIBRARIES ${target})
endfunction()

# The engine needs libc alone, so that it can be preloaded into any program: whatever else it would need makes
# the link fail.
function(tarn_link_without_libstdcxx target map)
  set_target_properties(${target} PROPERTIES SOVERSION 1 LINK_DEPENDS ${map})
  target_link_options(${target} PRIVATE
    -nodefaultlibs
    LINKER:-z,now LINKER:-z,relro LINKER:-z,noexecstack
    LINKER:-z,nodelete # threads end and fork handlers run after a dlclose
    LINKER:-Bsymbolic-functions LINKER:--no-undefined
    LINKER:--version-script=${map})
  # Last on the line: the objects come first. libgcc has the helpers that some processors' atomics call.
  target_link_libraries(${target} PRIVATE c gcc)
endfunction()
