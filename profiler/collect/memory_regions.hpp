// SPDX-License-Identifier: MIT
// memory_regions: what lies where in a process: the mappings that the kernel reports, by address. The newest wins where
// they overlap; what is unmapped is not reported, so a name may outlive its mapping.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tarn::profiler {

class memory_regions {
 public:
  // [start, end) is mapped: a file, or a name that the kernel gives; memory without a file may have an odd one.
  void note(std::uint64_t start, std::uint64_t end, const std::string& path);

  // "[anonymous]" where nothing is known. A stack grows below its mapping.
  [[nodiscard]] std::string at(std::uint64_t address) const;

 private:
  struct region {
    std::uint64_t end = 0;
    std::string name;
  };

  std::map<std::uint64_t, region> regions_;  // by their first address; none overlaps another
};

}  // namespace tarn::profiler
