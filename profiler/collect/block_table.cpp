// SPDX-License-Identifier: MIT
#include "profiler/collect/block_table.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace tarn::profiler {

namespace {

constexpr unsigned first_bits = 7;  // many processes have few blocks

}  // namespace

block_table::block_table(bool ranges)
    : ranges_(ranges),
      shift_(64 - first_bits),
      page_shift_(64 - first_bits),
      entries_(std::size_t{1} << first_bits) {
  if (ranges) pages_.resize(std::size_t{1} << first_bits);
}

living_block* block_table::find(std::uint64_t address) noexcept {
  if (address == 0) return nullptr;
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t index = index_of(address);; index = (index + 1) & mask) {
    living_block& here = entries_[index];
    if (here.address == address) return &here;
    if (here.address == 0) return nullptr;
  }
}

living_block& block_table::insert(const living_block& block) {
  if (2 * (count_ + 1) > entries_.size()) grow();
  const std::size_t mask = entries_.size() - 1;
  std::size_t index = index_of(block.address);
  while (entries_[index].address != 0) index = (index + 1) & mask;
  entries_[index] = block;
  ++count_;
  if (ranges_) {
    if (block.size >= large_range) {
      large_[block.address] = block.address + block.size;
    } else {
      mark(block.address, true);
    }
  }
  if (os::is_check_due(entries_.size())) validate();
  return entries_[index];
}

void block_table::erase(std::uint64_t address) {
  living_block* found = find(address);
  if (found == nullptr) return;
  if (ranges_) {
    if (found->size >= large_range) {
      large_.erase(address);
    } else {
      mark(address, false);
    }
  }
  // Closes the gap (deletion without tombstones in linear probing), so that every entry stays reachable from its
  // home slot.
  const std::size_t mask = entries_.size() - 1;
  auto index = static_cast<std::size_t>(found - entries_.data());
  for (std::size_t next = (index + 1) & mask; entries_[next].address != 0; next = (next + 1) & mask) {
    const std::size_t home = index_of(entries_[next].address);
    if (((next - home) & mask) < ((next - index) & mask)) continue;
    entries_[index] = entries_[next];
    index = next;
  }
  entries_[index] = {};
  --count_;
  if (os::is_check_due(entries_.size())) validate();
}

void block_table::grow() {
  std::vector<living_block> old(2 * entries_.size());
  std::swap(old, entries_);
  --shift_;
  const std::size_t mask = entries_.size() - 1;
  for (const living_block& block : old) {
    if (block.address == 0) continue;
    std::size_t index = index_of(block.address);
    while (entries_[index].address != 0) index = (index + 1) & mask;
    entries_[index] = block;
  }
}

block_table::page_entry* block_table::find_page(std::uint64_t page) noexcept {
  const std::size_t mask = pages_.size() - 1;
  for (std::size_t index = page_index(page);; index = (index + 1) & mask) {
    if (pages_[index].page == page + 1) return &pages_[index];
    if (pages_[index].page == 0) return nullptr;
  }
}

// Page entries are never removed: a heap uses the same pages again.
block_table::page_entry& block_table::add_page(std::uint64_t page) {
  if (page_entry* known = find_page(page)) return *known;
  if (2 * (page_count_ + 1) > pages_.size()) grow_pages();
  const std::size_t mask = pages_.size() - 1;
  std::size_t index = page_index(page);
  while (pages_[index].page != 0) index = (index + 1) & mask;
  pages_[index].page = page + 1;
  ++page_count_;
  return pages_[index];
}

void block_table::grow_pages() {
  std::vector<page_entry> old(2 * pages_.size());
  std::swap(old, pages_);
  --page_shift_;
  const std::size_t mask = pages_.size() - 1;
  for (const page_entry& entry : old) {
    if (entry.page == 0) continue;
    std::size_t index = page_index(entry.page - 1);
    while (pages_[index].page != 0) index = (index + 1) & mask;
    pages_[index] = entry;
  }
}

void block_table::mark(std::uint64_t address, bool there) {
  page_entry& page = add_page(address / page_bytes);
  const std::uint64_t bit = address % page_bytes / granule;
  const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
  if (there) {
    page.starts[bit / 64] |= mask;
    return;
  }
  // Two blocks of 8 bytes may begin within one granule.
  const std::uint64_t other = address ^ (granule / 2);
  const living_block* neighbour = find(other);
  if (neighbour == nullptr || neighbour->size >= large_range) page.starts[bit / 64] &= ~mask;
}

living_block* block_table::find_small(std::uint64_t address) noexcept {
  const std::uint64_t last_page = (address - std::min(address, large_range)) / page_bytes;
  std::uint64_t bit = address % page_bytes / granule;
  for (std::uint64_t page = address / page_bytes;; --page) {
    if (const page_entry* entry = find_page(page)) {
      for (auto word = static_cast<int>(bit / 64); word >= 0; --word) {
        std::uint64_t starts = entry->starts[word];
        if (static_cast<std::uint64_t>(word) == bit / 64 && bit % 64 != 63)
          starts &= (std::uint64_t{2} << (bit % 64)) - 1;
        // Blocks do not overlap, so only the nearest one that begins at or below the address can hold it. One that
        // begins in the address's granule may begin above it.
        for (; starts != 0; starts &= ~(std::uint64_t{1} << (63 - std::countl_zero(starts)))) {
          const auto nearest = static_cast<std::uint64_t>(63 - std::countl_zero(starts));
          const std::uint64_t begin =
              page * page_bytes + (static_cast<std::uint64_t>(word) * 64 + nearest) * granule;
          for (const std::uint64_t start : {begin + granule / 2, begin}) {
            living_block* block = start <= address ? find(start) : nullptr;
            if (block != nullptr) return address - start < block->size ? block : nullptr;
          }
        }
      }
    }
    if (page <= last_page) return nullptr;
    bit = page_bytes / granule - 1;
  }
}

living_block* block_table::find_within(std::uint64_t address) noexcept {
  if (!ranges_) return nullptr;
  auto above = large_.upper_bound(address);
  if (above != large_.begin()) {
    --above;
    if (address < above->second) return find(above->first);
  }
  return find_small(address);
}

}  // namespace tarn::profiler
