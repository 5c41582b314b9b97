// SPDX-License-Identifier: MIT
// heap_faults: counts the page faults on memory where small blocks lie.
//
// In mode sample most blocks are not known, so a fault at an address of no known block may be on an unsampled small
// block, or on a stack, a file or static data. An allocator keeps small blocks side by side, and one of them is
// sampled per `sample_bytes` on average. So a fault counts as a block's if a sampled block, at any time, lay within
// a few times that distance.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace tarn::profiler {

class heap_faults {
 public:
  // `sample_bytes`: mean distance between samples, in allocated bytes.
  explicit heap_faults(double sample_bytes);

  // A sampled block lies at `address`.
  void add_block(std::uint64_t address);
  // A fault at `address`; a negative `weight` takes one back that has turned out to belong to a known block.
  void add_fault(std::uint64_t address, double weight);
  // Adds another process's near_blocks().
  void add_process(double faults) { of_processes_ += faults; }
  // The faults near sampled blocks, those of other processes included.
  double near_blocks() const;

 private:
  static constexpr std::size_t most_areas = std::size_t{1} << 20;
  // In areas of sample_bytes; of all gaps between samples, one in 50 is longer.
  static constexpr std::uint64_t reach = 4;
  struct area {
    bool has_blocks = false;
    double faults = 0;
  };

  area* at(std::uint64_t address);

  std::uint64_t area_bytes_;
  std::unordered_map<std::uint64_t, area> areas_;  // key: address / area_bytes_
  double of_processes_ = 0;
};

}  // namespace tarn::profiler
