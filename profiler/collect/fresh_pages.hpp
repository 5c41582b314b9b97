// SPDX-License-Identifier: MIT
// fresh_pages: which pages have been given by the kernel and not yet used up: a block that comes to lie there is among
// those that the page was given for.
//
// An allocator fills pages in the order of their addresses, so a page is used up when its successor is given. Where no
// successor follows, it counts as used up after eight times what pages take on average to be used up.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace tarn::profiler {

class fresh_pages {
 public:
  static constexpr std::uint64_t page_bytes = 4096;

  // `weight`: for how many faults this one stands.
  void given(std::uint64_t address, std::uint64_t time_ns, double weight);
  // For a block of a call that began then, on the page at `page`: the weight of the fault that gave it; 0: used up.
  double weight_at(std::uint64_t page, std::uint64_t time_ns) const;

 private:
  static constexpr std::size_t most_pages = std::size_t{1} << 22;
  static constexpr double patience = 8;
  struct gift {
    std::uint64_t time_ns = 0;
    double weight = 0;
  };

  std::unordered_map<std::uint64_t, gift> gifts_;  // by the page's number
  double usual_ns_ = 0;                            // that a page takes to be used up; 0: not known
};

}  // namespace tarn::profiler
