# SPDX-License-Identifier: MIT
# The compiler flags, as INTERFACE targets: tarn_warnings (for all code of the project), tarn_sanitizers (for all code
# in the sanitizer presets, empty elsewhere), tarn_internal (for the engine and for tests that include its headers),
# tarn_engine_options (for the engine only).

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
  endif()
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)

if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
   OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16))
  message(FATAL_ERROR "tarn needs GCC 12 or Clang 16, or a newer one; this is ${CMAKE_CXX_COMPILER_ID} "
    "${CMAKE_CXX_COMPILER_VERSION} (${CMAKE_CXX_COMPILER}). Choose another by CXX=…, in a fresh build folder.")
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(tarn_warnings INTERFACE)
target_compile_options(tarn_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef)
if(TARN_WERROR)
  target_compile_options(tarn_warnings INTERFACE -Werror)
endif()

add_library(tarn_sanitizers INTERFACE)
if(TARN_SANITIZE)
  # No recovery: the first finding fails the test.
  set(sanitize -fsanitize=${TARN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(TARN_SANITIZE MATCHES "undefined")
    # These two take a third of the compilation time and find what ends the program anyway.
    list(APPEND sanitize -fno-sanitize=null,vptr)
  endif()
  target_compile_options(tarn_sanitizers INTERFACE ${sanitize})
  target_link_options(tarn_sanitizers INTERFACE ${sanitize})
endif()

add_library(tarn_internal INTERFACE)
target_include_directories(tarn_internal INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(tarn_internal INTERFACE
  TARN_CHECKS=$<BOOL:${TARN_CHECKS}> TARN_VERSION="${PROJECT_VERSION}")

add_library(tarn_engine_options INTERFACE)
target_link_libraries(tarn_engine_options INTERFACE tarn_warnings tarn_sanitizers tarn_internal)
target_compile_definitions(tarn_engine_options INTERFACE _GNU_SOURCE)
target_compile_options(tarn_engine_options INTERFACE
  -fPIC
  # Without optimisation the compiler calls functions of C++'s library (std::string_view), which the engine does not link.
  $<$<CONFIG:Debug>:-O1>
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>
  $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety> # base/thread_safety.hpp
  -fvisibility=hidden
  $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>
  # Access to thread-local data without a call of __tls_get_addr, which may itself allocate.
  -ftls-model=initial-exec
  -fno-plt
  -fno-semantic-interposition
  # What a distribution adds to every program would change what the engine calls and how fast it is: the checks of
  # _FORTIFY_SOURCE and of the stack protector are functions of libc.
  -U_FORTIFY_SOURCE -fno-stack-protector
  # The compiler must not optimise by what it knows of malloc in the code that implements it: in calloc it would turn
  # malloc and memset into a call of calloc.
  -fno-builtin-malloc -fno-builtin-free -fno-builtin-calloc -fno-builtin-realloc)
if(NOT TARN_SANITIZE)
  target_compile_options(tarn_engine_options INTERFACE -fomit-frame-pointer)
endif()
if(TARN_UB_TRAPS)
  target_compile_options(tarn_engine_options INTERFACE -fsanitize=undefined -fno-sanitize=null,vptr
    $<IF:$<CXX_COMPILER_ID:GNU>,-fsanitize-undefined-trap-on-error,-fsanitize-trap=all>)
endif()
