// SPDX-License-Identifier: MIT
// resolvers: lets the program's IFUNC resolvers allocate. They run while the dynamic linker relocates the program, before it
// gives thread-local data their first values: all are zero. A resolver of this library runs earlier, when the library itself
// is relocated, and makes the first thread one without a cache. The dynamic linker then overwrites that by the first values,
// and the thread gets a cache at its next allocation.
//
// A library that is relocated before this one, because it is loaded behind it, cannot be helped.
// Only in the shared libraries: a static program runs resolvers before it has thread-local data at all.
#include <unistd.h>

#include "engine/engine.hpp"

extern "C" {
// Of glibc's dynamic linker: the program's arguments, and behind them its environment.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
[[gnu::weak]] extern void* __libc_stack_end;
[[gnu::visibility("hidden")]] void tarn_after_resolvers() noexcept;
}

namespace {

using namespace tarn;

void nothing() {}

// libc finds the environment later, but the engine reads its options at the first allocation.
void find_environment() {
  if (environ != nullptr || &__libc_stack_end == nullptr) return;
  auto* const start = static_cast<char**>(__libc_stack_end);
  // A program that names this variable has it in its own memory, and the value is copied there after this.
  if (start == nullptr) return;
  const auto arguments = *reinterpret_cast<const long*>(start);
  environ = start + 1 + arguments + 1;
}

}  // namespace

extern "C" [[gnu::used]] void (*tarn_before_resolvers() noexcept)() {
  if (engine::local_cache == nullptr) {
    find_environment();
    engine::begin_bare_thread();
  }
  return nothing;
}

[[gnu::ifunc("tarn_before_resolvers")]] void tarn_after_resolvers() noexcept;

// The dynamic linker calls the resolver for this pointer's sake.
extern "C" [[gnu::used, gnu::visibility("hidden")]] void (*const tarn_resolved)() = &tarn_after_resolvers;
