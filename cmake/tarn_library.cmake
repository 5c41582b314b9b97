# SPDX-License-Identifier: MIT
# tarn_library(TARGET OUTPUT NAME EXPORTED NAME LAYERS LAYER… [EXPORTS MAP] [HARDENED])
# Makes a library of the layers' objects: a shared one if EXPORTS names its version script, else a static one. OUTPUT is
# its file name without "lib"; EXPORTED is its name after tarn:: in the CMake package and in this build. HARDENED takes
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
    # With initfirst the engine's fork handlers are registered first: they run last before a fork, and first after it.
    # Only one library of a process can have this flag, so no other library of tarn has it.
    target_link_options(${target} PRIVATE LINKER:-z,initfirst)
  else()
    add_library(${target} STATIC ${objects})
    target_link_libraries(${target} PUBLIC ${CMAKE_DL_LIBS}) # glibc before 2.34 has dlsym there
  endif()
  add_library(tarn::${arg_EXPORTED} ALIAS ${target})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:tarn_sanitizers> Threads::Threads)
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${arg_OUTPUT} EXPORT_NAME ${arg_EXPORTED} LINKER_LANGUAGE CXX)
  set_property(GLOBAL APPEND PROPERTY TARN_LIBRARIES ${target})
endfunction()

# The engine needs only libc, so that it can be preloaded into any program. Any other dependency makes the link fail.
function(tarn_link_without_libstdcxx target map)
  set_target_properties(${target} PROPERTIES SOVERSION 1
    LINK_DEPENDS "${map};${PROJECT_SOURCE_DIR}/cmake/replaceable.list")
  target_link_options(${target} PRIVATE
    -nodefaultlibs
    LINKER:-z,now LINKER:-z,relro LINKER:-z,noexecstack
    LINKER:-z,nodelete # after a dlclose, threads still end and fork handlers still run
    LINKER:-Bsymbolic-functions LINKER:--dynamic-list=${PROJECT_SOURCE_DIR}/cmake/replaceable.list
    LINKER:--no-undefined
    LINKER:--version-script=${map})
  # pthread_atfork is code of libc's static part, which every program calls at its start. Taken here, before the objects,
  # it lies beside other such code, not on the last page.
  target_link_options(${target} PRIVATE LINKER:--undefined=pthread_atfork -lc)
  # The libraries come after the objects on the command line. libgcc has the helpers that atomics need on some
  # processors.
  target_link_libraries(${target} PRIVATE c gcc)
endfunction()
