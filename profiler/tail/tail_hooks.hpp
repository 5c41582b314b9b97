// SPDX-License-Identifier: MIT
// tail_hooks: what the hooks of malloc and of operator new have in common. Each hook is the function into which these are inlined.
#pragma once

#include <cstddef>

#include "profiler/record/early_store.hpp"
#include "profiler/tail/block_groups.hpp"
#include "profiler/tail/tail_functions.hpp"
#include "profiler/tail/tail_thread.hpp"

namespace tarn::profiler::tail {

[[gnu::always_inline]] inline bool is_inner_call() {
  return __builtin_expect(self.inside, 0) != 0 &&
         is_inner(
             reinterpret_cast<std::uintptr_t>(__builtin_extract_return_addr(__builtin_return_address(0))));
}

// `forward` returns the block, or null.
template <class call>
[[gnu::always_inline]] inline void* timed_get(call forward, std::size_t size) {
  if (is_inner_call()) return forward();
  const std::uint8_t group = group_of(size);
  void* const block = is_counting() ? timed(call_kind::get, group, forward) : forward();
  note_group(block, group);
  return block;
}

template <class call>
[[gnu::always_inline]] inline void timed_give(call forward, void* block) {
  if (__builtin_expect(block == nullptr || recorder::is_early(block), 0) != 0) return;
  if (is_inner_call()) return forward();
  const std::uint8_t group = take_group(block);
  if (!is_counting()) return forward();
  timed(call_kind::give, group, [&] {
    forward();
    return 0;
  });
}

// Requires that `block` is not null.
template <class call>
[[gnu::always_inline]] inline void* timed_resize(call forward, void* block, std::size_t size) {
  if (is_inner_call()) return forward();
  const std::uint8_t before = take_group(block);
  const std::uint8_t group = group_of(size);
  void* const moved = is_counting() ? timed(call_kind::resize, group, forward) : forward();
  if (moved != nullptr) {
    note_group(moved, group);
  } else if (size != 0) {
    note_group(block, before);
  }
  return moved;
}

}  // namespace tarn::profiler::tail
