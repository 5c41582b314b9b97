// SPDX-License-Identifier: MIT
#include "profiler/collect/heap_faults.hpp"

#include <algorithm>

namespace tarn::profiler {

namespace {

constexpr double least_area = 4096;
constexpr double largest_area = 1 << 30;

}  // namespace

heap_faults::heap_faults(double sample_bytes)
    : area_bytes_(static_cast<std::uint64_t>(std::clamp(sample_bytes, least_area, largest_area))) {}

// Null: the address is in a new area, and there are too many areas already.
heap_faults::area* heap_faults::at(std::uint64_t address) {
  const std::uint64_t number = address / area_bytes_;
  if (areas_.size() < most_areas) return &areas_[number];
  const auto known = areas_.find(number);
  return known == areas_.end() ? nullptr : &known->second;
}

void heap_faults::add_block(std::uint64_t address) {
  if (area* there = at(address)) there->has_blocks = true;
}

void heap_faults::add_fault(std::uint64_t address, double weight) {
  if (area* there = at(address)) there->faults += weight;
}

double heap_faults::near_blocks() const {
  double sum = of_processes_;
  for (const auto& [number, one] : areas_) {
    if (one.faults <= 0) continue;
    for (std::uint64_t near = number - std::min(number, reach); near <= number + reach; ++near) {
      const auto found = areas_.find(near);
      if (found == areas_.end() || !found->second.has_blocks) continue;
      sum += one.faults;
      break;
    }
  }
  return sum;
}

}  // namespace tarn::profiler
