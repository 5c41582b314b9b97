// SPDX-License-Identifier: MIT
// pinned_memory: which sites' live blocks keep malloc's free memory resident. A page goes back to the system only when
// no block lies on it, and most mallocs cut pieces of some pages into blocks of one size, which go back only as a whole.
//
// The free bytes of a page are divided equally among the blocks that lie on it. A resident page without a block is
// divided among the blocks of its cell, the 64 KiB around it that begin at a multiple of that. What lies in cells without
// a block is pinned by nobody: malloc's caches, its own data, and memory that it has not given back yet.
//
// Invariant (validate()): pinned bytes of all sites and the bytes pinned by nobody add up to the resident bytes of all
// ranges less those that blocks cover, each up to rounding.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tarn::profiler {

class pinned_memory {
 public:
  static constexpr std::uint64_t page_bytes = 4096;
  static constexpr std::uint64_t cell_bytes = 65536;

  // `meanwhile` is called again and again while it takes long.
  explicit pinned_memory(std::function<void()> meanwhile = [] {}) : meanwhile_(std::move(meanwhile)) {}

  // Requires: no two blocks overlap.
  void add_block(std::uint64_t start, std::uint64_t end, std::uint32_t site) {
    if (start < end) blocks_.push_back({start, end, site});
  }
  // A range of malloc's memory. `resident_in(from, to)`: the resident bytes of a part of it.
  void add_range(std::uint64_t start, std::uint64_t end,
                 const std::function<double(std::uint64_t, std::uint64_t)>& resident_in);
  // Divides. Call once, after all blocks and then all ranges.
  void divide();

  [[nodiscard]] const std::map<std::uint32_t, double>& by_site() const noexcept { return by_site_; }
  [[nodiscard]] double by_nobody() const noexcept { return nobody_; }
  void validate() const;

 private:
  friend class pinned_memory_test_access;

  struct block {
    std::uint64_t start;
    std::uint64_t end;
    std::uint32_t site;
  };
  struct place {
    double covered = 0;   // of a page: by blocks
    double resident = 0;  // of a page: its bytes; of a cell: those of pages without a block
    double blocks = 0;
    double share = 0;  // of each block in what is free
  };

  void mark_blocks();
  template <class Visit>
  void for_each_block(Visit visit) {
    for (std::size_t index = 0; index < blocks_.size(); ++index) {
      if (index % blocks_at_once == 0) meanwhile_();
      visit(blocks_[index]);
    }
  }

  static constexpr std::size_t blocks_at_once = 1024;
  static constexpr std::size_t cells_at_once = 64;

  std::function<void()> meanwhile_;
  std::vector<block> blocks_;
  std::unordered_map<std::uint64_t, place> pages_;  // by number; with blocks
  std::unordered_map<std::uint64_t, place> cells_;
  bool marked_ = false;
  std::map<std::uint32_t, double> by_site_;
  double nobody_ = 0;
  double free_ = 0;  // all that was divided
};

}  // namespace tarn::profiler
