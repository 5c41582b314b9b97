// SPDX-License-Identifier: MIT
// fresh_pages: which pages the kernel has given recently (by a page fault) and the allocator has not filled yet. A
// block that is placed on such a page is one of the blocks for which the page was faulted in.
//
// An allocator fills pages in the order of their addresses, so a page counts as used up when its successor is
// given. Without a successor it counts as used up after eight times the average time that pages take, or after the
// first sampled block on it: samples are much farther apart than the bytes of a page, so a second one shows that
// the page's memory is being reused.
//
// A fault of weight n stands for its own page and the n - 1 pages that follow, up to the next reported fault.
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

  // A page fault at `address`. `weight`: the number of faults that it stands for.
  void given(std::uint64_t address, std::uint64_t time_ns, double weight);
  // Whether a block on `page`, whose allocation began at `time_ns`, is one of those that the page was faulted in
  // for.
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
  double usual_ns_ = 0;                            // average time in which a page is used up; 0: not known
};

}  // namespace tarn::profiler
