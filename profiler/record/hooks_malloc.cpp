// SPDX-License-Identifier: MIT
// Hooks of the malloc family, in front of the program's own functions.
#include "profiler/record/origin.hpp"
#include "profiler/record/recorder.hpp"

using namespace tarn::profiler;
using namespace tarn::profiler::recorder;

namespace {

bool are_found() { return __builtin_expect(real.malloc != nullptr, 1) != 0 || find_real_functions(); }

// The hooks below are short, and save no registers, as long as nothing is recorded: all else is done in functions of their own.

// Lets the program's malloc serve the call, and records the block. Called where wants_allocation() said so, or where the call
// may be an inner one.
template <class call>
[[gnu::noinline]] void* recorded_slowly(word_kind kind, call forward, std::size_t size, std::size_t alignment,
                                        const call_origin& origin) {
  if (self.in_new != 0 && (is_inner_call(origin.return_address, true) || !wants_allocation(size)))
    return forward();
  call_time time;
  void* const block = run_timed(wants_time(size), time, forward);
  allocated(kind, block, size, alignment, origin, time);
  return block;
}

template <class call>
[[gnu::always_inline]] inline void* get(word_kind kind, call forward, std::size_t size,
                                        std::size_t alignment) {
  if (__builtin_expect(self.in_new != 0, 0) != 0 || wants_allocation(size))
    return recorded_slowly(kind, forward, size, alignment, caller());
  return forward();
}

template <class call>
[[gnu::noinline]] void recorded_free_slowly(call forward, void* block, std::uintptr_t return_address) {
  if (is_inner_call(return_address, true)) return forward();
  record_free(word_kind::free, forward, block);
}

template <class call>
[[gnu::always_inline]] inline void give(call forward, void* block) {
  if (__builtin_expect(block == nullptr || is_early(block), 0) != 0) return;
  if (__builtin_expect(self.in_new != 0, 0) != 0 || !is_free_of_no_interest(block))
    return recorded_free_slowly(forward, block, return_address());
  forward();
}

template <class call>
[[gnu::always_inline]] inline void* resize(call forward, void* block, std::size_t size) {
  if (__builtin_expect(self.in_new != 0, 0) != 0 && is_inner_call(return_address(), true)) return forward();
  const bool begun = wants_free(block) && realloc_begins(block);
  const bool wanted = wants_allocation(size);
  if (!wanted && !begun) return forward();
  call_time time;
  void* const moved = run_timed(wanted && wants_time(size), time, forward);
  realloc_ends(begun, moved, size, caller(), time);
  return moved;
}

}  // namespace

#include "profiler/record/forwarded_malloc.hpp"
