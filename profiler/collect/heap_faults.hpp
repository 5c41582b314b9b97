// SPDX-License-Identifier: MIT
// heap_faults: how many page faults lay where small blocks lie.
//
// Of sampled blocks most are not known, so a fault at an address of no known block may be a small block's, or be on a
// stack, a file or static data. An allocator keeps small blocks side by side, and one of them is sampled every
// `sample_bytes` on average: a fault is a block's if a sampled block, at any time, lay within a few times that distance.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace tarn::profiler {

class heap_faults {
 public:
  // `sample_bytes`: mean distance of samples.
  explicit heap_faults(double sample_bytes);

  // A sampled block lies there.
  void add_block(std::uint64_t address);
  // A fault there; a negative `weight` takes back one that has turned out to be another block's.
  void add_fault(std::uint64_t address, double weight);
  // Those of another process, by what near_blocks() tells of it.
  void add_process(double faults) { of_processes_ += faults; }
  // The faults near sampled blocks, those of other processes included.
  double near_blocks() const;

 private:
  static constexpr std::size_t most_areas = std::size_t{1} << 20;
  static constexpr std::uint64_t reach =
      4;  // areas of sample_bytes: a longer one without a sample is one of 50
  struct area {
    bool has_blocks = false;
    double faults = 0;
  };

  area* at(std::uint64_t address);

  std::uint64_t area_bytes_;
  std::unordered_map<std::uint64_t, area> areas_;  // by address / area_bytes_
  double of_processes_ = 0;
};

}  // namespace tarn::profiler
