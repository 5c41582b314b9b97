// SPDX-License-Identifier: MIT
// backing_limits: how many bytes of a page heap may be backed by memory, and which requests were refused for it.
//
// Thread safety: any thread may call any member.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"

namespace tarn {

class backing_limits {
 public:
  static constexpr std::size_t none = ~std::size_t{0};
  // Small heaps need no look at the process's limits.
  static constexpr std::size_t first_mark = 16 * mib;

  // The most bytes that may be backed.
  void set_most(std::size_t bytes) { most_.store(bytes, std::memory_order_relaxed); }
  [[nodiscard]] std::size_t most() const { return most_.load(std::memory_order_relaxed); }
  void note_refusal() { refusals_.fetch_add(1, std::memory_order_relaxed); }
  // How often a request was refused for it.
  [[nodiscard]] std::uint32_t refusals() const { return refusals_.load(std::memory_order_relaxed); }

  // Beyond so many backed bytes somebody looks at the process's limits.
  void set_mark(std::size_t bytes) { mark_.store(bytes, std::memory_order_relaxed); }
  [[nodiscard]] bool is_beyond_mark(std::size_t backed) const {
    return backed > mark_.load(std::memory_order_relaxed);
  }

  // The most bytes of free pages that may stay backed between two periods; `automatic`: grows with the bytes in use.
  static constexpr std::size_t automatic = ~std::size_t{0};
  void set_most_free(std::size_t bytes) { most_free_.store(bytes, std::memory_order_relaxed); }
  [[nodiscard]] std::size_t most_free(std::size_t in_use) const {
    const std::size_t most = most_free_.load(std::memory_order_relaxed);
    return most != automatic ? most : std::max(least_automatic, in_use / automatic_divisor);
  }
  // After a refusal of the system to take `free` bytes back: tried again only with twice as many. 0: it took some.
  void note_kept_free(std::size_t bytes) { kept_free_.store(bytes, std::memory_order_relaxed); }
  [[nodiscard]] bool may_try(std::size_t free) const {
    return free / 2 >= kept_free_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t least_automatic = 256 * mib;
  // Large blocks of random lengths up to 8 MiB, freed and allocated in turn, have half of their bytes free beside them.
  static constexpr std::size_t automatic_divisor = 2;

  std::atomic<std::size_t> most_{none};
  std::atomic<std::size_t> mark_{first_mark};
  std::atomic<std::uint32_t> refusals_{0};
  std::atomic<std::size_t> most_free_{automatic};
  std::atomic<std::size_t> kept_free_{0};
};

}  // namespace tarn
