// SPDX-License-Identifier: MIT
// frame_rule: how to get from a frame to its caller's, for one program counter, as .eh_frame tells it. What is asked for
// again and again is kept in a table that all threads share without locks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tarn::profiler {

enum class rule_kind : std::uint8_t {
  unknown,        // not in the table
  usual,          // CFA = stack or frame pointer + offset; the rest is saved at fixed distances below it
  end,            // the outermost frame, or one that nothing is known of
  frame_pointer,  // no information: a chain of frame pointers, as compiled code of interpreters keeps
  realigned,      // CFA = *(frame pointer + offset), as functions that align their stack keep it
};

// Offsets are in 8 bytes. Invariant: of kind usual, saved_return > 0 on x86-64.
struct frame_rule {
  rule_kind kind = rule_kind::unknown;
  bool from_frame_pointer = false;
  std::int32_t cfa_offset = 0;
  std::int32_t saved_frame_pointer = 0;  // below the CFA; 0: it was not saved here
  std::int32_t saved_return = 0;         // likewise; 0: still in its register
};

// Reads the rule for `pc`, an address within the calling instruction. Takes no lock, allocates nothing.
frame_rule parse_frame_rule(std::uintptr_t pc, const unsigned char* unwind_header);

// The module that `pc` is in, as the dynamic linker knows it.
struct loaded_module {
  const unsigned char* unwind_header = nullptr;  // .eh_frame_hdr
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  const char* path = nullptr;  // "" for the program itself
};
bool find_module(std::uintptr_t pc, loaded_module& found);

// Invariant: an entry is whole (check == pc ^ rule) or counts as absent: two threads may write one at a time.
class rule_table {
 public:
  static constexpr std::size_t size = std::size_t{1} << 15;

  frame_rule find(std::uintptr_t pc) const noexcept;
  void insert(std::uintptr_t pc, const frame_rule& rule) noexcept;

 private:
  struct entry {
    std::atomic<std::uint64_t> check{0};
    std::atomic<std::uint64_t> rule{0};
  };
  static std::size_t index_of(std::uintptr_t pc) {
    return static_cast<std::size_t>((pc * 0x9e3779b97f4a7c15U) >> (64 - 15));
  }
  alignas(65536) entry entries_[size];  // whole pages of any size, to be given back at once
};

}  // namespace tarn::profiler
