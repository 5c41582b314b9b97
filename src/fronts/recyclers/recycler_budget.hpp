// SPDX-License-Identifier: MIT
// recycler_budget: how many bytes and objects a recycler may keep, and how many are reserved ("paid") by places of its
// magazines. An object is kept only in a place that has paid its bytes.
//
// Thread safety: any thread. Invariant: paid bytes <= most_bytes and paid objects <= most_objects, at every
// moment; each is the sum over all places of all magazines of the recycler.
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>

#include "os/invariant.hpp"

namespace tarn {

// A sum of what places have paid.
struct recycler_payment {
  std::size_t bytes = 0;
  std::size_t objects = 0;

  void add(std::size_t paid) {
    bytes += paid;
    objects += paid != 0 ? 1 : 0;
  }
};

class recycler_budget {
 public:
  // 0: no limit.
  recycler_budget(std::size_t most_bytes, std::size_t most_objects)
      : bytes_{.most = limit(most_bytes)}, objects_{.most = limit(most_objects)} {}

  // Reserves bytes and objects. False, and nothing is reserved, if a limit would be exceeded.
  bool pay(std::size_t bytes, std::size_t objects) {
    if (!bytes_.add(bytes)) return false;
    const bool paid = objects_.add(objects);
    if (!paid) bytes_.subtract(bytes);
    if (os::is_check_due()) validate();
    return paid;
  }
  void refund(const recycler_payment& paid) {
    bytes_.subtract(paid.bytes);
    objects_.subtract(paid.objects);
    if (os::is_check_due()) validate();
  }
  void validate() const {
    TARN_INVARIANT("recycler_budget", this, paid_bytes() <= bytes_.most);
    TARN_INVARIANT("recycler_budget", this, paid_objects() <= objects_.most);
  }
  // Whether this could be paid 64 times: then a bin that pays ahead takes nothing that others need.
  [[nodiscard]] bool is_ample(std::size_t bytes, std::size_t objects) const {
    return bytes_.left() / 64 >= bytes && objects_.left() / 64 >= objects;
  }
  // In a forked child, where the magazines of other threads are lost: sets the paid sums.
  void restart(const recycler_payment& all) {
    bytes_.paid.store(all.bytes, std::memory_order_relaxed);
    objects_.paid.store(all.objects, std::memory_order_relaxed);
  }

  [[nodiscard]] std::size_t paid_bytes() const { return bytes_.paid.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t paid_objects() const { return objects_.paid.load(std::memory_order_relaxed); }

 private:
  static std::size_t limit(std::size_t most) {
    return most != 0 ? most : std::numeric_limits<std::size_t>::max();
  }

  struct account {
    std::size_t most;
    std::atomic<std::size_t> paid{0};

    bool add(std::size_t n) {
      std::size_t now = paid.load(std::memory_order_relaxed);
      do {
        if (n > most - now) return false;
      } while (!paid.compare_exchange_weak(now, now + n, std::memory_order_relaxed));
      return true;
    }
    void subtract(std::size_t n) { paid.fetch_sub(n, std::memory_order_relaxed); }
    [[nodiscard]] std::size_t left() const { return most - paid.load(std::memory_order_relaxed); }
  };
  account bytes_;
  account objects_;
};

}  // namespace tarn
