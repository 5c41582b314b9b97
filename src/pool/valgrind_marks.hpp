// SPDX-License-Identifier: MIT
// valgrind_marks: tells valgrind's memcheck which slots of checked pools and recyclers may be accessed. A few
// instructions without effect if the process does not run under valgrind; no code if its header was missing when the
// library was built.
// Thread safety: any thread.
#pragma once

#include <cstddef>

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define TARN_VALGRIND 1
#else
#define TARN_VALGRIND 0
#endif

namespace tarn::valgrind_marks {

// NOLINTBEGIN(cppcoreguidelines-pro-type-cstyle-cast,hicpp-no-assembler): the header's macros use both

// The memory may not be accessed.
inline void hide([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if TARN_VALGRIND
  static_cast<void>(VALGRIND_MAKE_MEM_NOACCESS(memory, bytes));
#endif
}
// The memory may be accessed, and its content is initialised.
inline void show([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if TARN_VALGRIND
  static_cast<void>(VALGRIND_MAKE_MEM_DEFINED(memory, bytes));
#endif
}
// The memory may be accessed, but its content is uninitialised.
inline void renew([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if TARN_VALGRIND
  static_cast<void>(VALGRIND_MAKE_MEM_UNDEFINED(memory, bytes));
#endif
}

// NOLINTEND(cppcoreguidelines-pro-type-cstyle-cast,hicpp-no-assembler)

}  // namespace tarn::valgrind_marks
