# SPDX-License-Identifier: MIT
# What a build of tarn makes: every option that users and packagers may set (docs/how-to/build.md), and what they exclude.
# As a part of another project (add_subdirectory, FetchContent) tarn makes its libraries only, and installs nothing.

option(TARN_DEVELOPER "Default of TARN_BUILD_COMMAND and TARN_BUILD_TESTS" ${PROJECT_IS_TOP_LEVEL})
# BUILD_TESTING is what CMake's own module CTest asks.
if(DEFINED BUILD_TESTING AND NOT BUILD_TESTING)
  set(tests_default OFF)
else()
  set(tests_default ${TARN_DEVELOPER})
endif()

option(TARN_BUILD_SHARED "Build the shared libraries" ON)
option(TARN_BUILD_STATIC "Build the static libraries" ON)
option(TARN_BUILD_COMMAND "Build the command and the profiler" ${TARN_DEVELOPER})
option(TARN_BUILD_TESTS "Build the tests, which need GoogleTest" ${tests_default})
option(TARN_BUILD_EXAMPLES "Build the examples; the tests build a copy of them with an installed tarn" OFF)
option(TARN_BUILD_BENCHMARKS "Build the benchmarks" OFF)
option(TARN_INSTALL "Install the libraries, the headers and the command" ${PROJECT_IS_TOP_LEVEL})
set(TARN_INSTALL_PLUGINDIR ${CMAKE_INSTALL_LIBDIR} CACHE STRING
  "Where the libraries go that only the command preloads: the library folder, or a folder tarn below it")
set(TARN_GLIBC_FLOOR "" CACHE STRING
  "Oldest glibc on which the libraries and the command run, e.g. 2.31; empty: that of this system")
option(TARN_FMT_HEADER_ONLY "Compile fmt into the command instead of linking its shared library" OFF)

# For the development of tarn; the presets set them.
option(TARN_WERROR "Make warnings errors" OFF)
option(TARN_TEST_HARDENED "Build unit and stress tests, and no others, with the hardened build's objects" OFF)
option(TARN_ENGINE_UNITY "Compile each of the engine's folders as one source, where CMAKE_UNITY_BUILD is on" OFF)
option(TARN_QUICK_TESTS "Build only the tests of tier quick (tests/tiers.txt)" OFF)
option(TARN_INNER_TESTS "Build unit tests of what lies inside the libraries and the command" ON)
option(TARN_CHECKS "Compile the engine's internal checks in" OFF)
option(TARN_UB_TRAPS "Make undefined behaviour of the engine end the program" OFF)
set(TARN_SANITIZE "" CACHE STRING "Sanitizers for the engine and its tests, e.g. address,undefined or thread")

if(NOT TARN_BUILD_SHARED AND NOT TARN_BUILD_STATIC)
  message(FATAL_ERROR "tarn: TARN_BUILD_SHARED and TARN_BUILD_STATIC are both OFF; set one of them to ON.")
endif()
if(TARN_BUILD_COMMAND AND NOT TARN_BUILD_SHARED)
  message(FATAL_ERROR
    "tarn: the command preloads the shared library; set TARN_BUILD_SHARED=ON, or TARN_BUILD_COMMAND=OFF.")
endif()
if(TARN_BUILD_TESTS AND NOT (TARN_BUILD_SHARED AND TARN_BUILD_STATIC))
  message(FATAL_ERROR
    "tarn: the tests need the shared and the static libraries; set both to ON, or TARN_BUILD_TESTS=OFF.")
endif()
if(TARN_BUILD_BENCHMARKS AND NOT TARN_BUILD_COMMAND)
  message(FATAL_ERROR "tarn: the benchmarks need the command; set TARN_BUILD_COMMAND=ON, or TARN_BUILD_BENCHMARKS=OFF.")
endif()
