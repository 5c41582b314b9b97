// SPDX-License-Identifier: MIT
// block_table: the living blocks of a program, found by their first address, or by any address within them.
// Invariant, where ranges are kept: large_ holds exactly the blocks of large_range bytes and more. For the smaller
// blocks, pages_ has one bit per 16 bytes of a page, set where a block begins. The number of blocks is at
// most half of the places.
//
// Not thread-safe. References stay good until the next insert or erase.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "os/invariant.hpp"
#include "profiler/collect/open_table.hpp"

namespace tarn::profiler {

struct living_block {
  std::uint64_t address = 0;  // 0: an empty entry
  std::uint64_t size = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t number : 56 = 0;   // its allocation's position in the order of all, from 1
  std::uint64_t halvings : 8 = 0;  // of the distance at which it was sampled (allocation_event)
  std::uint32_t site = 0;
  std::uint32_t thread = 0;
  double faults = 0;  // page faults on it so far, weighted
};

class block_table {
 public:
  // `ranges`: keep what find_within and for_each_on_page need; insert and erase then cost more.
  explicit block_table(bool ranges) : ranges_(ranges) {}

  living_block* find(std::uint64_t address) noexcept {
    return address == 0 ? nullptr : blocks_.find(address);
  }
  // Requires an address that is not 0 and not in the table.
  living_block& insert(const living_block& block);
  void erase(std::uint64_t address);
  // The block that holds `address`; null if there is none, or the table was made without ranges.
  living_block* find_within(std::uint64_t address) noexcept;
  // Visits the blocks with at least one byte in the 4 KiB page at `page`; visits none in a table without ranges.
  template <class Visit>
  void for_each_on_page(std::uint64_t page, Visit visit) {
    if (!ranges_) return;
    const auto on_page = [page, &visit](living_block* block) {
      if (block != nullptr && block->address < page + page_bytes && page < block->address + block->size)
        visit(*block);
    };
    for (auto at = large_.lower_bound(page + page_bytes); at != large_.begin();) {
      --at;
      if (at->second <= page) break;
      on_page(find(at->first));
    }
    const std::uint64_t reach = std::min(page / page_bytes, large_range / page_bytes);
    for (std::uint64_t number = page / page_bytes - reach; number <= page / page_bytes; ++number) {
      const page_entry* entry = find_page(number);
      if (entry == nullptr) continue;
      for (std::uint64_t bit = 0; bit < page_bytes / granule; ++bit) {
        if ((entry->starts[bit / 64] >> (bit % 64) & 1) == 0) continue;
        const std::uint64_t begin = number * page_bytes + bit * granule;
        on_page(find(begin));
        on_page(find(begin + granule / 2));
      }
    }
  }
  std::size_t size() const noexcept { return blocks_.size(); }

  template <class Visit>
  void for_each(Visit visit) const {
    for (const living_block& block : blocks_.buckets()) {
      if (block.address != 0) visit(block);
    }
  }

  // `visit` may change what a block has besides its address and its size.
  template <class Visit>
  void change_each(Visit visit) {
    for (living_block& block : blocks_.buckets()) {
      if (block.address != 0) visit(block);
    }
  }

  static constexpr std::uint64_t large_range = 16384;

  void validate();

 private:
  static constexpr std::uint64_t page_bytes = 4096;
  static constexpr std::uint64_t granule = 16;

  struct page_entry {
    std::uint64_t page = 0;  // number + 1; 0: empty
    std::uint64_t starts[page_bytes / granule / 64] = {};
  };

  page_entry* find_page(std::uint64_t page) noexcept { return pages_.find(page + 1); }
  void mark(std::uint64_t address, bool there);
  living_block* find_small(std::uint64_t address) noexcept;

  bool ranges_;
  open_table<living_block, &living_block::address> blocks_;
  // Page entries are never removed: a heap uses the same pages again.
  open_table<page_entry, &page_entry::page> pages_;
  std::map<std::uint64_t, std::uint64_t> large_;  // address -> end
};

inline void block_table::validate() {
  std::size_t blocks = 0;
  std::size_t large = 0;
  for_each([&](const living_block& block) {
    ++blocks;
    if (!ranges_) return;
    const bool is_large = block.size >= large_range;
    large += is_large ? 1 : 0;
    const page_entry* const page = is_large ? nullptr : find_page(block.address / page_bytes);
    const std::uint64_t bit = block.address % page_bytes / granule;
    TARN_INVARIANT("block_table", this, !is_large || large_.count(block.address) == 1);
    TARN_INVARIANT("block_table", this,
                   is_large || (page != nullptr && (page->starts[bit / 64] >> (bit % 64) & 1) != 0));
  });
  TARN_INVARIANT("block_table", this, blocks_.size() == blocks);
  TARN_INVARIANT("block_table", this, large_.size() == large);
  blocks_.validate();
  pages_.validate();
}

}  // namespace tarn::profiler
