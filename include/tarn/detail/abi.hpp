// SPDX-License-Identifier: MIT
// The first thing that each C++ header of tarn includes: the language and the compiler that it needs, and the names of the two inline
// namespaces that give all its templates and types their linker names. Defines no type. docs/reference/abi.md has the rules.
//
// TARN_ABI: the number of the ABI, the one in the name libtarn.so.1. It changes when something changes that these headers
// compile into programs, so code of two versions in one program never takes the other's templates for its own.
//
// TARN_CHECKED_POOLS: 1 in a program whose pools detect misuse (docs/how-to/which-pool.md); the same in all of its translation
// units. Checked and unchecked templates have different linker names, so that a mixture is a link error or harmless, never
// one pool that is used as both.
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

#define TARN_ABI abi1

#ifndef TARN_CHECKED_POOLS
#define TARN_CHECKED_POOLS 0
#endif

#if TARN_CHECKED_POOLS
#define TARN_POOL_MODE checked
#else
#define TARN_POOL_MODE unchecked
#endif
