// SPDX-License-Identifier: MIT
// fresh_pages: which pages have been given by the kernel and not yet used up: a block that comes to lie there is among
// those that the page was given for.
//
// An allocator fills pages in the order of their addresses, so a page is used up when its successor is given. Where no
// successor follows, it counts as used up after eight times what pages take on average to be used up, and after the first
// sampled block on it: samples are much farther apart than the bytes of a page, so a second one tells that the page is used
// again and again.
//
// A fault that stands for several is that of its page, and of those that follow, up to the next fault that is told.
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
  // Whether a block of a call that began then, on the page at `page`, is among those that the page was given for.
  bool is_fresh(std::uint64_t page, std::uint64_t time_ns) const;
  void use_up(std::uint64_t page);

 private:
  static constexpr std::size_t most_pages = std::size_t{1} << 22;
  static constexpr double patience = 8;
  static constexpr double most_ahead = 1024;
  struct gift {
    std::uint64_t time_ns = 0;
    bool is_used_up = false;
  };

  std::unordered_map<std::uint64_t, gift> gifts_;  // by the page's number
  double usual_ns_ = 0;                            // that a page takes to be used up; 0: not known
};

}  // namespace tarn::profiler
