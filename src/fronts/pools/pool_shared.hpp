// SPDX-License-Identifier: MIT
// pool_shared: what a pool has in common with its shards: layout, limits and sums.
//
// Thread safety: all members may be called by any thread.
// Invariants: spare_bytes = sum of the shards' spare_bytes() (pool_core::validate());
//   moving() = slots in magazines that are on their way to spans, or were lost by fork.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include "fronts/pools/slot_layout.hpp"
#include "pages/page_map.hpp"
#include "pages/span.hpp"

namespace tarn {

class pool_shared {
 public:
  pool_shared(const slot_layout& layout, const char* name, bool huge)
      : layout_(layout), name_(name), huge_(huge) {}
  pool_shared(const pool_shared&) = delete;
  pool_shared& operator=(const pool_shared&) = delete;

  [[nodiscard]] const slot_layout& layout() const { return layout_; }
  [[nodiscard]] const char* name() const { return name_; }
  // The beginning of the name, for messages.
  [[nodiscard]] std::string_view shown_name() const { return std::string_view(name_).substr(0, 600); }
  [[nodiscard]] std::size_t most_in_magazine() const { return layout_.magazine; }
  // The most full magazines in one shard.
  [[nodiscard]] unsigned most_waiting() const { return most_waiting_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t slots_in(const span* s) const { return layout_.slots_in(s->pages, huge_); }

  // Counts slots (or, negative, discounts them) that are in transit to their spans, as those of a magazine that
  // pool_core::put_back() will empty, or lost to a forked child. They count as cached.
  void note_moving(std::ptrdiff_t slots) {
    moving_.fetch_add(static_cast<std::size_t>(slots), std::memory_order_relaxed);
  }
  // Tunable. Empty spans beyond this in one shard go back at the next pool_core::release_surplus(). note_surplus() records that
  // there are some.
  static constexpr std::size_t spare_limit = 8 * mib;
  void note_surplus() { has_surplus_.store(true, std::memory_order_relaxed); }

  // Ends the process with a message that names the pool.
  [[noreturn]] void fatal(const char* what, const void* pointer) const;

 protected:
  const slot_layout layout_;
  const char* const name_;
  const bool huge_;
  std::atomic<bool> has_surplus_{false};   // a shard has more than spare_limit of empty spans
  std::atomic<unsigned> most_waiting_{0};  // see most_waiting()

 public:
  // On cache lines of their own: the members above are read by all threads and rarely written.
  // Bytes of the empty spans of all shards; the shards update it.
  alignas(separation) std::atomic<std::size_t> spare_bytes{0};

 protected:
  std::atomic<std::size_t> moving_{0};
};

}  // namespace tarn
