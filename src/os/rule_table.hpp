// SPDX-License-Identifier: MIT
// rule_table: rules that were asked for before, kept by program counter in tables that all threads share without locks.
// Each rule is kept with what it was found by (its source), so that a user can tell whether it still holds: where a library
// has been closed, another one, or code that a program has made, may lie at its addresses.
// Thread safety: any thread, and in a signal handler.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/frame_rule.hpp"

namespace tarn::unwind {

struct kept_rule {
  frame_rule rule;  // unknown: none is kept
  std::uint64_t source = 0;
};

// Invariant: an entry is whole (check == pc ^ rule ^ source) or counts as absent: two threads may write one at a time.
class rule_entry {
 public:
  [[nodiscard]] kept_rule find(std::uintptr_t pc) const noexcept;
  void insert(std::uintptr_t pc, const kept_rule& kept) noexcept;

 private:
  std::atomic<std::uint64_t> check_{0};
  std::atomic<std::uint64_t> rule_{0};
  std::atomic<std::uint64_t> source_{0};
};

template <unsigned SizeBits>
class rules {
 public:
  [[nodiscard]] kept_rule find(std::uintptr_t pc) const noexcept { return entries_[index_of(pc)].find(pc); }
  void insert(std::uintptr_t pc, const kept_rule& kept) noexcept { entries_[index_of(pc)].insert(pc, kept); }

 private:
  static std::size_t index_of(std::uintptr_t pc) {
    return static_cast<std::size_t>((pc * 0x9e3779b97f4a7c15U) >> (64 - SizeBits));
  }
  rule_entry entries_[std::size_t{1} << SizeBits];
};

// For a user who is told of libraries that are closed.
using rule_table = rules<15>;

// For a user who is not: a rule is used again only where the module that lies at its address now has the same entry in the
// same place, byte by byte (32 bits of a digest of the bytes).
class checked_rules {
 public:
  // `unwind_header`: of the module that `pc` is in now (find_module). The module must stay loaded meanwhile.
  frame_rule rule_for(std::uintptr_t pc, const unsigned char* unwind_header) noexcept;

 private:
  rules<10> kept_;
};

// The rule for `pc` as the module's tables tell it.
frame_rule parse_frame_rule(std::uintptr_t pc, const unsigned char* unwind_header);

}  // namespace tarn::unwind
