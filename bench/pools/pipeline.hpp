// SPDX-License-Identifier: MIT
// pipeline: a bounded ring of batches of pointers, from one producer to one consumer. A side that must wait yields.
// Thread safety: produce() one thread, consume() one other; objects() after both.
// Invariant: read <= written <= read + ring_length.
#pragma once

#include "../workloads/support.hpp"

namespace bench {

template <class T, std::size_t batch_length, std::size_t ring_length>
class pipeline {
 public:
  // Calls fill(batch, number) for each batch as long as go_on(number of batches before it) says; `number` is that of
  // the batch's first object.
  template <class condition_type, class fill_type>
  void produce(condition_type go_on, fill_type fill) {
    std::size_t at = 0;
    for (; go_on(at); ++at) {
      // acquire: pairs with consume's release store of `read`; the place is free again.
      while (at - read_.load(std::memory_order_acquire) >= ring_length) std::this_thread::yield();
      fill(ring_[at % ring_length].objects, at * batch_length);
      // release: pairs with consume's acquire; the consumer sees the pointers and what they point to.
      written_.store(at + 1, std::memory_order_release);
    }
    last_.store(at, std::memory_order_relaxed);
  }

  // Calls empty(batch, number) for each batch until the producer has ended.
  template <class empty_type>
  void consume(empty_type empty) {
    for (std::size_t at = 0;; ++at) {
      // acquire: pairs with produce's release store of `written`.
      while (written_.load(std::memory_order_acquire) == at) {
        if (last_.load(std::memory_order_relaxed) == at) return;
        std::this_thread::yield();
      }
      empty(ring_[at % ring_length].objects, at * batch_length);
      // release: pairs with produce's acquire; the place may be written again.
      read_.store(at + 1, std::memory_order_release);
    }
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
