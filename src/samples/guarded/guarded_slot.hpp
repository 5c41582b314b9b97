// SPDX-License-Identifier: MIT
// guarded_slot: what is known of a slot of guarded_blocks and of the block that it holds, or held last.
// Thread safety: guarded_blocks.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tarn {

// A call path, innermost frame first, as unwind::walk() gives it.
struct call_stack {
  static constexpr std::size_t most = 24;
  std::uintptr_t frames[most] = {};
  std::size_t count = 0;
  long thread = 0;  // the kernel's thread id

  void record();
};

enum class guarded_state : std::uint8_t {
  unused,
  live,
  freed,
};

struct guarded_slot {
  std::atomic<guarded_state> state{guarded_state::unused};
  std::uint8_t size_class = 0;
  const void* owner = nullptr;  // of the block: guarded_blocks::allocate()
  // Whether the slot's last page ([0]) and its first page ([1]) are separate mappings: see open().
  bool is_separate[2] = {};
  std::uintptr_t start = 0;  // of the block
  std::size_t size = 0;
  call_stack allocated;
  call_stack freed;
};

}  // namespace tarn
