// SPDX-License-Identifier: MIT
#include "profiler/collect/memory_regions.hpp"

#include <iterator>

namespace tarn::profiler {

namespace {

constexpr const char* nameless = "[anonymous]";
constexpr const char* stack = "[stack]";
constexpr std::uint64_t stack_growth = std::uint64_t{8} << 20;

}  // namespace

void memory_regions::note(std::uint64_t start, std::uint64_t end, const std::string& path) {
  if (start >= end) return;
  // A region that the new one covers in part keeps what remains on either side.
  auto next = regions_.lower_bound(start);
  if (next != regions_.begin()) {
    const auto before = std::prev(next);
    if (before->second.end > end) regions_[end] = before->second;
    if (before->second.end > start) before->second.end = start;
  }
  next = regions_.lower_bound(start);
  while (next != regions_.end() && next->first < end) {
    if (next->second.end > end) regions_[end] = next->second;
    next = regions_.erase(next);
  }
  const bool has_name = !path.empty() && !path.starts_with("//");
  regions_[start] = {end, has_name ? path : nameless};
}

std::string memory_regions::at(std::uint64_t address) const {
  auto above = regions_.upper_bound(address);
  if (above != regions_.begin()) {
    const auto here = std::prev(above);
    if (address < here->second.end) return here->second.name;
  }
  if (above != regions_.end() && above->second.name == stack && above->first - address < stack_growth)
    return stack;
  return nameless;
}

}  // namespace tarn::profiler
