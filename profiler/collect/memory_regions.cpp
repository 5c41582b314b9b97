// SPDX-License-Identifier: MIT
#include "profiler/collect/memory_regions.hpp"

namespace tarn::profiler {

namespace {

constexpr const char* nameless = "[anonymous]";
constexpr const char* stack = "[stack]";
constexpr std::uint64_t stack_growth = std::uint64_t{8} << 20;

}  // namespace

void memory_regions::note(std::uint64_t start, std::uint64_t end, const std::string& path) {
  const bool has_name = !path.empty() && !path.starts_with("//");
  regions_.add(start, end, has_name ? path : nameless);
}

std::string memory_regions::at(std::uint64_t address) const {
  if (const std::string* name = regions_.at(address); name != nullptr) return *name;
  const auto [start, above] = regions_.above(address);
  if (above != nullptr && *above == stack && start - address < stack_growth) return stack;
  return nameless;
}

}  // namespace tarn::profiler
