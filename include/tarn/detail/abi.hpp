// SPDX-License-Identifier: MIT
// The first thing that each C++ header of tarn includes: the language and the compiler that it needs, and the macros that open
// and close the inline namespaces in its names for the linker. Defines no type. docs/reference/abi.md has the rules.
//
// TARN_NAMESPACE_BEGIN, TARN_NAMESPACE_END: around everything in namespace tarn. They stand for nothing under ABI 1 (the number
// in the name libtarn.so.1), so that compilers, debuggers and the pages of the API show the names that users write:
// tarn::object_pool<order>. Under another number they are `inline namespace abi2 {` and `}`: the number changes when something
// changes that these headers compile into programs, so code of two versions in one program never takes the other's templates for
// its own.
//
// TARN_POOLS_BEGIN, TARN_POOLS_END: around what differs with TARN_CHECKED_POOLS: 1 in a program whose pools detect misuse
// (docs/how-to/which-pool.md), the same in all of its translation units. Checked and unchecked templates have different linker
// names, so that a mixture is a link error or harmless, never one pool that is used as both.
#pragma once

#if __cplusplus < 202002L
#error "tarn's C++ headers need C++20: compile with -std=c++20 (tarn/malloc.h works with C11 and C++11, too)"
// Ends the compilation here: after an #error alone, compilers go on and report every line of the headers.
#include <tarn needs -std=c++20>
#endif
#if defined(__clang__)
#if __clang_major__ < 16
#error \
    "tarn's C++ headers need Clang 16 or newer, or GCC 12 or newer (tarn/malloc.h works with older ones, too)"
#include <tarn needs Clang 16>
#endif
#elif defined(__GNUC__) && __GNUC__ < 12
#error \
    "tarn's C++ headers need GCC 12 or newer, or Clang 16 or newer (tarn/malloc.h works with older ones, too)"
#include <tarn needs GCC 12>
#endif

#ifndef TARN_CHECKED_POOLS
#define TARN_CHECKED_POOLS 0
#endif

#define TARN_NAMESPACE_BEGIN
#define TARN_NAMESPACE_END

#if TARN_CHECKED_POOLS
#define TARN_POOLS_BEGIN inline namespace checked {
#define TARN_POOLS_END }
#else
#define TARN_POOLS_BEGIN
#define TARN_POOLS_END
#endif
