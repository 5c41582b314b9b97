// SPDX-License-Identifier: MIT
// worker: what one thread of the threaded scenes owns: places for pointers, and the shuffled order in which what lies
//   there goes back. Made before the clock or the count of memory starts.
// Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <random>

#include "contender.hpp"

namespace bench {

inline constexpr std::size_t objects_per_thread = 100'000;
using item = object<64>;

class worker {
 public:
  worker(unsigned seed, std::size_t count) : seed_(seed), items_(count), order_(count) {
    for (std::uint32_t index = 0; index < count; ++index) order_[index] = index;
    std::mt19937 random(seed);
    std::shuffle(order_.begin(), order_.end(), random);
  }

  template <class pool_type>
  void take_all(pool_type& pool, unsigned round) {
    for (item*& each : items_) {
      each = ::new (static_cast<void*>(pool.take())) item;
      std::memset(each->bytes, static_cast<int>(round), sizeof each->bytes);
      obscure(each);
    }
  }
  template <class pool_type>
  void give_all(pool_type& pool) {
    for (const std::uint32_t index : order_) pool.give(items_[index]);
  }

  // Makes resident what the worker itself needs.
  void touch() {
    for (item*& each : items_) {
      each = nullptr;
      obscure(each);
    }
  }

  // An object that two threads hold, or one holds twice, does not keep what was written to it.
  void sign_all() {
    for (std::uint32_t index = 0; index < items_.size(); ++index) {
      const std::uint32_t signature[2] = {seed_, index};
      std::memcpy(items_[index]->bytes, signature, sizeof signature);
    }
  }
  void check_all() const {
    for (std::uint32_t index = 0; index < items_.size(); ++index) {
      const std::uint32_t signature[2] = {seed_, index};
      if (std::memcmp(items_[index]->bytes, signature, sizeof signature) != 0)
        fail("an object was overwritten");
    }
  }

 private:
  unsigned seed_;
  std::vector<item*> items_;
  std::vector<std::uint32_t> order_;
};

inline std::vector<worker> make_workers(unsigned threads, std::size_t objects) {
  std::vector<worker> workers;
  workers.reserve(threads);
  for (unsigned index = 0; index < threads; ++index) workers.emplace_back(index + 1, objects);
  return workers;
}

// The limit of the threaded scenes: nothing is allocated, each thread has its objects from the start.
struct no_allocation {
  static constexpr const char* name = "no-allocation";
  template <class T>
  class of {
   public:
    // Cyclic: the next of the thread's own objects, of which `capacity` are never in use at once.
    T* take() {
      if (next_ == nullptr || next_ == end_) restart();
      return next_++;
    }
    void give(T* object) { obscure(object); }

   private:
    static constexpr std::size_t capacity = objects_per_thread;
    static void restart() {
      if (begin_ == nullptr) {
        begin_ = static_cast<T*>(::operator new(capacity * sizeof(T), std::align_val_t(64)));
        end_ = begin_ + capacity;
      }
      next_ = begin_;
    }
    static inline constinit thread_local T* begin_ = nullptr;
    static inline constinit thread_local T* next_ = nullptr;
    static inline constinit thread_local T* end_ = nullptr;
  };
};

}  // namespace bench
