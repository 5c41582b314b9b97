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
  range_map<std::string> regions_;
};

}  // namespace tarn::profiler
