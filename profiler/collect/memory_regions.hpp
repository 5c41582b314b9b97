// SPDX-License-Identifier: MIT
// memory_regions: the mappings of a process by address, as the kernel reports them (mode faults). Where two
// overlap, the newer one counts. Unmapping is not reported, so a name may outlive its mapping.
#pragma once

#include <cstdint>
#include <string>

#include "profiler/model/range_map.hpp"

namespace tarn::profiler {

class memory_regions {
 public:
  // [start, end) is mapped. `path`: a file, or the kernel's name, which for anonymous memory may be a placeholder
  // ("//anon").
  void note(std::uint64_t start, std::uint64_t end, const std::string& path);

  // The name at `address`; "[anonymous]": not known. An address a little below a stack's mapping counts as that
  // stack, as stacks grow downwards.
  [[nodiscard]] std::string at(std::uint64_t address) const;

 private:
  static constexpr const char* nameless = "[anonymous]";
  static constexpr const char* stack = "[stack]";
  static constexpr std::uint64_t stack_growth = std::uint64_t{8} << 20;

  range_map<std::string> regions_;
};

inline void memory_regions::note(std::uint64_t start, std::uint64_t end, const std::string& path) {
  const bool has_name = !path.empty() && !path.starts_with("//");
  regions_.add(start, end, has_name ? path : nameless);
}

inline std::string memory_regions::at(std::uint64_t address) const {
  if (const std::string* name = regions_.at(address); name != nullptr) return *name;
  const auto [start, above] = regions_.above(address);
  if (above != nullptr && *above == stack && start - address < stack_growth) return stack;
  return nameless;
}

}  // namespace tarn::profiler
