# SPDX-License-Identifier: MIT
# How tests are declared. All functions take SOURCES (the word may be left out), LABELS (additional ones; "long" for
# tests that run only on request), TIMEOUT in seconds, ENV (NAME=VALUE…), SERIAL (CTest runs no other test beside it)
# and LIBRARY, the target to link instead of tarn_api_static.
#
#   tarn_unit_test(NAME SOURCE…)    GoogleTest; links libtarn-api.a and sees the engine's headers. Label unit.
#   tarn_stress_test(NAME SOURCE…)  the same for tests with many threads or many rounds. Label stress.
#   tarn_death_test(NAME SOURCE…)   the same for tests that expect an abort; not under sanitizers. Label death.
#
# UNOPTIMISED: compiles with -O0, which saves a third of the compilation time; for tests of a library that is compiled
# separately. Under a sanitizer all unit tests are compiled so, which saves nearly half. Without a sanitizer never use
# it for tests of the public headers' templates, which users compile with optimisation: the tier quick leaves that to full.
#
# HARDENED: the program sees the engine's headers with TARN_HARDENED=1 and links the hardened build's objects. With the
# option TARN_TEST_HARDENED (preset hardened) all programs do so and have the label hardened as well, except programs
# that link the other build's archive, which are left out.
#
# The tests run without guarded allocations, which are rare and at random places; ENV TARN_GUARDED=N enables them.
#
# Programs that run with libtarn preloaded are declared in tests/guarantees/.
#
# Under an emulator all time limits are ten times as long, and the programs are told so (GUARANTEE_SLOWNESS).
include(${CMAKE_CURRENT_LIST_DIR}/tarn_slowness.cmake)

function(tarn_unit_test name)
  tarn_gtest_program(${name} unit 60 ${ARGN})
endfunction()

function(tarn_stress_test name)
  tarn_gtest_program(${name} stress 300 ${ARGN})
endfunction()

function(tarn_death_test name)
  if(NOT TARN_SANITIZE)
    tarn_gtest_program(${name} death 60 ${ARGN})
  endif()
endfunction()

# GoogleTest's header takes a fifth of a test's compilation time. All programs of the tier quick are compiled with the same
# options, and all unit tests under a sanitizer, so they share it.
if(TARN_QUICK_TESTS OR TARN_SANITIZE)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/tests/headers.cpp CONTENT "" @ONLY)
  add_library(tarn_test_headers OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/tests/headers.cpp)
  target_link_libraries(tarn_test_headers PRIVATE tarn_api_static tarn_internal tarn_warnings GTest::gtest_main)
  target_compile_options(tarn_test_headers PRIVATE -O0)
  target_precompile_headers(tarn_test_headers PRIVATE <gtest/gtest.h> <atomic> <string> <thread> <vector>)
endif()

# Sets arg_… in the caller. `timeout` is the TIMEOUT if the arguments have none.
macro(tarn_parse_test timeout)
  cmake_parse_arguments(arg "SERIAL;HARDENED;UNOPTIMISED" "TIMEOUT;LIBRARY" "SOURCES;LABELS;ENV" ${ARGN})
  list(APPEND arg_SOURCES ${arg_UNPARSED_ARGUMENTS})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT ${timeout})
  endif()
  if(NOT arg_LIBRARY)
    set(arg_LIBRARY tarn_api_static)
  endif()
  tarn_limit(arg_TIMEOUT ${arg_TIMEOUT})
  if(TARN_TEST_HARDENED)
    set(arg_HARDENED ON)
  endif()
  if(arg_HARDENED)
    list(APPEND arg_LABELS hardened)
    set(tarn_api_static_hardened tarn_hardened_objects)
    set(tarn_hardened tarn_hardened)
    set(arg_LIBRARY ${${arg_LIBRARY}_hardened})
  endif()
endmacro()

# Adds a program to the targets that build all these programs, and those of the label.
function(tarn_engine_test_program name label)
  foreach(all engine_tests ${label}_tests)
    if(NOT TARGET ${all})
      add_custom_target(${all})
    endif()
    add_dependencies(${all} ${name})
  endforeach()
endfunction()

function(tarn_gtest_program name label timeout)
  tarn_parse_test(${timeout} ${ARGN})
  if(NOT arg_LIBRARY)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  tarn_engine_test_program(${name} ${label})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARY} tarn_internal tarn_warnings GTest::gtest_main)
  if(arg_HARDENED)
    target_compile_definitions(${name} PRIVATE TARN_HARDENED=1)
  endif()
  if(TARN_QUICK_TESTS OR (TARN_SANITIZE AND label STREQUAL "unit"))
    target_compile_options(${name} PRIVATE -O0)
    target_precompile_headers(${name} REUSE_FROM tarn_test_headers)
  elseif(arg_UNOPTIMISED)
    target_compile_options(${name} PRIVATE -O0)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  # One ctest test per program: a program's tests share one heap, and the sanitizers start slowly.
  add_test(NAME ${label}.${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${label}.${name} PROPERTIES
    ENVIRONMENT "${TARN_SANITIZER_ENV};${TARN_SLOWNESS_ENV};TARN_GUARDED=off;${arg_ENV}" LABELS "${label};${arg_LABELS}"
    TIMEOUT ${arg_TIMEOUT} RUN_SERIAL ${arg_SERIAL})
  if(label STREQUAL "stress") # its threads compute all the time
    set_tests_properties(${label}.${name} PROPERTIES PROCESSORS 2)
  endif()
endfunction()
