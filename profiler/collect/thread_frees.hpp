// SPDX-License-Identifier: MIT
// thread_frees: in which order a thread frees: whether a block was its youngest, and what it frees in a row. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace tarn::profiler {

// The numbers of a thread's youngest living blocks, at most `most`, the newest last.
class youngest_blocks {
 public:
  void add(std::uint64_t number) {
    if (depth_ == most) {
      std::copy(numbers_.begin() + 1, numbers_.end(), numbers_.begin());
      --depth_;
    }
    numbers_[depth_++] = number;
  }
  // The block ends. True: it was the youngest.
  bool remove(std::uint64_t number) {
    for (std::uint32_t back = 1; back <= depth_; ++back) {
      const std::uint32_t at = depth_ - back;
      if (numbers_[at] != number) continue;
      std::copy(numbers_.begin() + at + 1, numbers_.begin() + depth_, numbers_.begin() + at);
      --depth_;
      return back == 1;
    }
    return false;
  }

 private:
  static constexpr std::size_t most = 32;

  std::array<std::uint64_t, most> numbers_{};
  std::uint32_t depth_ = 0;
};

// The frees of a thread in a row, without an allocation in between, by site.
class free_run {
 public:
  // What has been freed of one site.
  struct part {
    std::uint32_t site = 0;
    double live = 0;  // living blocks of the site before the first of these frees
    double frees = 0;
  };

  void add(std::uint32_t site, double live, double weight) {
    ++frees_;
    // Searched from the end: it is usually the last entry, or one of a few.
    const auto found =
        std::find_if(parts_.rbegin(), parts_.rend(), [site](const part& one) { return one.site == site; });
    if (found != parts_.rend()) {
      found->frees += weight;
    } else if (parts_.size() < most_sites) {
      parts_.push_back({site, live, weight});
    }
  }
  const std::vector<part>& parts() const noexcept { return parts_; }
  // The frees of `one` that count as a batch: those of a site that has lost at least half of the blocks that this
  // thread can have had of it. Each of the `holders`, the threads that free blocks of the site, is assumed to have an equal
  // share.
  double batch_frees(const part& one, std::size_t holders) const {
    const auto all = static_cast<double>(std::max<std::size_t>(1, holders));
    return frees_ > 1 && one.frees * all >= batch_part * one.live ? one.frees : 0;
  }
  void end() {
    parts_.clear();
    frees_ = 0;
  }

 private:
  static constexpr std::size_t most_sites = 32;
  static constexpr double batch_part = 0.5;  // share of a site's living blocks

  std::vector<part> parts_;
  std::uint32_t frees_ = 0;
};

}  // namespace tarn::profiler
