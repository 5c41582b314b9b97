# SPDX-License-Identifier: MIT
# The libraries for which include/tarn/adapters has adapters, as far as they are installed. For each, an interface target
# tarn_with_NAME if it is found, else a line in TARN_MISSING_NAME that says what to install.
#
#   tarn_adapter_program(TARGET SOURCE LIBRARY)   a program with tarn_api_static and the library's target; not part of `all`

# tarn_found(NAME MISSING VARIABLE...): all variables must be set.
function(tarn_found name missing)
  set(variables ${ARGN})
  foreach(variable IN LISTS variables)
    if(NOT ${variable})
      set(TARN_MISSING_${name} "${missing}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  if(NOT TARGET tarn_with_${name})
    add_library(tarn_with_${name} INTERFACE)
  endif()
  set(TARN_MISSING_${name} "" PARENT_SCOPE)
endfunction()

find_package(Threads REQUIRED)

find_path(TARN_ROCKSDB_INCLUDE rocksdb/memory_allocator.h)
find_library(TARN_ROCKSDB_LIBRARY rocksdb)
tarn_found(rocksdb "Debian package librocksdb-dev" TARN_ROCKSDB_INCLUDE TARN_ROCKSDB_LIBRARY)
if(TARGET tarn_with_rocksdb)
  target_include_directories(tarn_with_rocksdb SYSTEM INTERFACE ${TARN_ROCKSDB_INCLUDE})
  target_link_libraries(tarn_with_rocksdb INTERFACE ${TARN_ROCKSDB_LIBRARY})
endif()

find_path(TARN_PROTOBUF_INCLUDE google/protobuf/arena.h)
find_library(TARN_PROTOBUF_LIBRARY protobuf)
tarn_found(protobuf "Debian package libprotobuf-dev" TARN_PROTOBUF_INCLUDE TARN_PROTOBUF_LIBRARY)
if(TARGET tarn_with_protobuf)
  target_include_directories(tarn_with_protobuf SYSTEM INTERFACE ${TARN_PROTOBUF_INCLUDE})
  target_link_libraries(tarn_with_protobuf INTERFACE ${TARN_PROTOBUF_LIBRARY})
endif()

find_path(TARN_BOOST_INCLUDE boost/asio/awaitable.hpp)
tarn_found(asio "Debian package libboost-dev" TARN_BOOST_INCLUDE)
if(TARGET tarn_with_asio)
  target_include_directories(tarn_with_asio SYSTEM INTERFACE ${TARN_BOOST_INCLUDE})
  target_link_libraries(tarn_with_asio INTERFACE Threads::Threads)
endif()

find_path(TARN_OPENCV_INCLUDE opencv2/core.hpp PATH_SUFFIXES opencv4)
find_library(TARN_OPENCV_LIBRARY opencv_core)
tarn_found(opencv "Debian package libopencv-core-dev" TARN_OPENCV_INCLUDE TARN_OPENCV_LIBRARY)
if(TARGET tarn_with_opencv)
  target_include_directories(tarn_with_opencv SYSTEM INTERFACE ${TARN_OPENCV_INCLUDE})
  target_link_libraries(tarn_with_opencv INTERFACE ${TARN_OPENCV_LIBRARY})
endif()

find_path(TARN_CATCH2_INCLUDE catch2/catch.hpp)
tarn_found(catch2 "Debian package catch2" TARN_CATCH2_INCLUDE)
if(TARGET tarn_with_catch2)
  target_include_directories(tarn_with_catch2 SYSTEM INTERFACE ${TARN_CATCH2_INCLUDE})
endif()

find_path(TARN_DOCTEST_INCLUDE doctest/doctest.h)
tarn_found(doctest "Debian package doctest-dev" TARN_DOCTEST_INCLUDE)
if(TARGET tarn_with_doctest)
  target_include_directories(tarn_with_doctest SYSTEM INTERFACE ${TARN_DOCTEST_INCLUDE})
endif()

# Arrow: TARN_ARROW_ROOT, the folder of the Python package pyarrow (its wheel has headers and libraries), or an installed
# libarrow.
if(NOT TARN_ARROW_ROOT)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(Python3_Interpreter_FOUND)
    execute_process(
      COMMAND ${Python3_EXECUTABLE} -c "import os, pyarrow; print(os.path.dirname(pyarrow.__file__), end='')"
      OUTPUT_VARIABLE TARN_ARROW_ROOT ERROR_QUIET)
  endif()
endif()
find_path(TARN_ARROW_INCLUDE arrow/memory_pool.h HINTS ${TARN_ARROW_ROOT}/include)
file(GLOB TARN_ARROW_LIBRARIES ${TARN_ARROW_ROOT}/libarrow.so.* ${TARN_ARROW_ROOT}/libarrow_compute.so.*)
if(NOT TARN_ARROW_LIBRARIES)
  find_library(TARN_ARROW_LIBRARY arrow)
  find_library(TARN_ARROW_COMPUTE_LIBRARY arrow_compute)
  set(TARN_ARROW_LIBRARIES ${TARN_ARROW_LIBRARY} ${TARN_ARROW_COMPUTE_LIBRARY})
  list(FILTER TARN_ARROW_LIBRARIES EXCLUDE REGEX NOTFOUND)
endif()
if(NOT TARN_ARROW_LIBRARIES)
  set(TARN_ARROW_LIBRARIES NOTFOUND)
endif()
tarn_found(arrow "Python package pyarrow, or libarrow with its headers; or set TARN_ARROW_ROOT" TARN_ARROW_INCLUDE
  TARN_ARROW_LIBRARIES)
if(TARGET tarn_with_arrow)
  target_include_directories(tarn_with_arrow SYSTEM INTERFACE ${TARN_ARROW_INCLUDE})
  # Their dependencies lie beside them.
  target_link_libraries(tarn_with_arrow INTERFACE ${TARN_ARROW_LIBRARIES} -Wl,--allow-shlib-undefined)
endif()

function(tarn_adapter_program target source library)
  add_executable(${target} EXCLUDE_FROM_ALL ${source})
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF) # GCC 12 warns of coroutines in included files
  target_link_libraries(${target} PRIVATE tarn_with_${library} tarn_warnings Threads::Threads)
endfunction()
