// SPDX-License-Identifier: MIT
// pipeline: a bounded ring of batches of pointers, from one producer to one consumer. A side that must wait yields.
// Thread safety: put() and end() one thread, take() one other; objects() after both.
// Invariant: read <= written <= read + ring_length.
#pragma once

#include "support.hpp"

namespace bench {

template <class T, std::size_t batch_length, std::size_t ring_length>
class pipeline {
 public:
  // Adds batch number `at` after all before it: fill(batch, number of its first object).
  template <class fill_type>
  void put(std::size_t at, fill_type fill) {
    // acquire: partner of take's release store of `read`; the place is free again.
    while (at - read_.load(std::memory_order_acquire) >= ring_length) std::this_thread::yield();
    fill(ring_[at % ring_length].objects, at * batch_length);
    // release: partner of take's acquire; the consumer sees the pointers and what they point to.
    written_.store(at + 1, std::memory_order_release);
  }

  // After the last of `batches` batches.
  void end(std::size_t batches) { last_.store(batches, std::memory_order_relaxed); }

  // Removes batch number `at`: empty(batch, number of its first object). False: there was none, the producer has ended.
  template <class empty_type>
  bool take(std::size_t at, empty_type empty) {
    // acquire: partner of put's release store of `written`.
    while (written_.load(std::memory_order_acquire) == at) {
      if (last_.load(std::memory_order_relaxed) == at) return false;
      std::this_thread::yield();
    }
    empty(ring_[at % ring_length].objects, at * batch_length);
    // release: partner of put's acquire; the place may be written again.
    read_.store(at + 1, std::memory_order_release);
    return true;
  }

  [[nodiscard]] std::size_t objects() const { return last_.load(std::memory_order_relaxed) * batch_length; }

 private:
  struct batch {
    T* objects[batch_length];
  };
  batch ring_[ring_length];
  // Only the producer stores `written`, only the consumer stores `read`.
  alignas(64) std::atomic<std::size_t> written_{0};
  alignas(64) std::atomic<std::size_t> read_{0};
  alignas(64) std::atomic<std::size_t> last_{SIZE_MAX};  // the number of batches, once the producer has ended
};

}  // namespace bench
