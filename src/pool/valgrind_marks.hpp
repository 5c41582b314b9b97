// SPDX-License-Identifier: MIT
// valgrind_marks: tells valgrind's memcheck which slots of a checked pool nobody may use. A few instructions without
// effect where the process does not run under valgrind; nothing where its header was missing when the library was built.
#pragma once

#include <cstddef>

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define TARN_VALGRIND 1
#else
#define TARN_VALGRIND 0
#endif

namespace tarn::valgrind_marks {

// NOLINTBEGIN(cppcoreguidelines-pro-type-cstyle-cast,hicpp-no-assembler): what the header's macros are made of

// Nobody may use the memory.
inline void hide([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if TARN_VALGRIND
  static_cast<void>(VALGRIND_MAKE_MEM_NOACCESS(memory, bytes));
#endif
}
// Its content may be read.
inline void show([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if TARN_VALGRIND
  static_cast<void>(VALGRIND_MAKE_MEM_DEFINED(memory, bytes));
#endif
}
// It may be written to, and read then.
inline void renew([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if TARN_VALGRIND
  static_cast<void>(VALGRIND_MAKE_MEM_UNDEFINED(memory, bytes));
#endif
}

// NOLINTEND(cppcoreguidelines-pro-type-cstyle-cast,hicpp-no-assembler)

}  // namespace tarn::valgrind_marks
