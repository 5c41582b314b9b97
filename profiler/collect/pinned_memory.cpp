// SPDX-License-Identifier: MIT
#include "profiler/collect/pinned_memory.hpp"

#include <algorithm>
#include <cmath>

#include "os/invariant.hpp"

namespace tarn::profiler {

void pinned_memory::mark_blocks() {
  if (marked_) return;
  marked_ = true;
  for_each_block([this](const block& one) {
    for (std::uint64_t page = one.start / page_bytes; page <= (one.end - 1) / page_bytes; ++page) {
      place& at = pages_[page];
      const std::uint64_t from = std::max(one.start, page * page_bytes);
      const std::uint64_t to = std::min(one.end, (page + 1) * page_bytes);
      at.covered += static_cast<double>(to - from);
      ++at.blocks;
    }
    for (std::uint64_t cell = one.start / cell_bytes; cell <= (one.end - 1) / cell_bytes; ++cell)
      ++cells_[cell].blocks;
  });
}

void pinned_memory::add_range(std::uint64_t start, std::uint64_t end,
                              const std::function<double(std::uint64_t, std::uint64_t)>& resident_in) {
  mark_blocks();
  for (std::uint64_t cell = start / cell_bytes; cell * cell_bytes < end; ++cell) {
    const std::uint64_t cell_end = std::min((cell + 1) * cell_bytes, end);
    if (cell % cells_at_once == 0) meanwhile_();
    std::uint64_t from = std::max(cell * cell_bytes, start);
    const auto in_cell = cells_.find(cell);
    if (in_cell == cells_.end()) {
      nobody_ += resident_in(from, cell_end);
      continue;
    }
    for (; from < cell_end; from = (from / page_bytes + 1) * page_bytes) {
      const std::uint64_t to = std::min((from / page_bytes + 1) * page_bytes, cell_end);
      const auto page = pages_.find(from / page_bytes);
      place& to_add = page != pages_.end() ? page->second : in_cell->second;
      to_add.resident += resident_in(from, to);
    }
  }
}

void pinned_memory::divide() {
  mark_blocks();
  free_ = nobody_;
  const auto set_share = [this](place& one) {
    const double left = std::max(0.0, one.resident - one.covered);
    one.share = left / one.blocks;
    free_ += left;
  };
  for (auto& [number, page] : pages_) set_share(page);
  for (auto& [number, cell] : cells_) set_share(cell);
  for_each_block([this](const block& one) {
    double share = 0;
    for (std::uint64_t page = one.start / page_bytes; page <= (one.end - 1) / page_bytes; ++page)
      share += pages_[page].share;
    for (std::uint64_t cell = one.start / cell_bytes; cell <= (one.end - 1) / cell_bytes; ++cell)
      share += cells_[cell].share;
    by_site_[one.site] += share;
  });
  if (os::is_check_due(blocks_.size())) validate();
}

void pinned_memory::validate() const {
  double sum = nobody_;
  for (const auto& [site, bytes] : by_site_) sum += bytes;
  TARN_INVARIANT("pinned_memory", this, std::abs(sum - free_) <= 1e-6 * (1 + free_));
}

}  // namespace tarn::profiler
