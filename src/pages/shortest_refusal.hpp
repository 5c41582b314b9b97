// SPDX-License-Identifier: MIT
// shortest_refusal: the shortest request for which the heap and the system had no memory. As long as no span has become free
// since, such a request asks the system once, instead of some dozen times.
//
// Thread safety: guarded by the page heap's lock; may_cover() may be called without it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tarn {

class shortest_refusal {
 public:
  // A request of this length; `frees`: how many spans have become free so far.
  void note(std::size_t pages, std::size_t frees) {
    const std::size_t before = frees_ == frees ? pages_.load(std::memory_order_relaxed) : SIZE_MAX;
    frees_ = frees;
    pages_.store(std::min(before, pages), std::memory_order_relaxed);
  }
  void forget() { pages_.store(SIZE_MAX, std::memory_order_relaxed); }

  [[nodiscard]] bool may_cover(std::size_t pages) const {
    return pages >= pages_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool holds_at(std::size_t frees) const { return frees_ == frees; }

 private:
  std::size_t frees_ = 0;
  std::atomic<std::size_t> pages_{SIZE_MAX};
};

}  // namespace tarn
