// SPDX-License-Identifier: MIT
#include "profiler/collect/block_table.hpp"

#include <algorithm>
#include <bit>

namespace tarn::profiler {

living_block& block_table::insert(const living_block& block) {
  living_block& added = blocks_.add(block);
  if (ranges_) {
    if (block.size >= large_range) {
      large_[block.address] = block.address + block.size;
    } else {
      mark(block.address, true);
    }
  }
  if (os::is_check_due(blocks_.buckets().size())) validate();
  return added;
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
  blocks_.erase(found);
  if (os::is_check_due(blocks_.buckets().size())) validate();
}

void block_table::mark(std::uint64_t address, bool there) {
  page_entry* known = find_page(address / page_bytes);
  page_entry& page = known != nullptr ? *known : pages_.add({address / page_bytes + 1, {}});
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
