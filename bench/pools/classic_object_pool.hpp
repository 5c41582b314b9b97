// SPDX-License-Identifier: MIT
// The classic concurrent object pool, as its published descriptions have it: each thread has a block to cut fresh
//   slots from and a chain of free slots; a chain that reaches its full length goes as a whole to one of several
//   global pools, by its head, and threads are assigned to these in turn. A contender of the pool benchmarks, and as
//   fast as the design allows.
// Thread safety: all members of object_pool may be called by any thread.
// Invariant: a slot is in the program's hands, in one chain, or in the part of one block that is not cut yet. Memory
//   is never given back. What a thread returns goes to its own global pool, not to that of whoever took it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace classic {

inline constexpr std::size_t object_block_slots = 256;  // slots in a block
inline constexpr std::size_t object_chunk_blocks = 16;  // blocks taken from the system at once
inline constexpr std::size_t object_chain_slots = 256;  // a chain of so many goes to the global pool
inline constexpr std::size_t object_global_pools = 4;

// For sections of a few instructions.
class spin_lock {
 public:
  void lock() {
    // acquire: partner of unlock's release.
    while (held_.exchange(true, std::memory_order_acquire)) {
      while (held_.load(std::memory_order_relaxed)) pause();
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }  // partner of lock's acquire

 private:
  static void pause() {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }
  std::atomic<bool> held_{false};
};

template <class T>
class object_pool {
  union slot {
    slot* next;
    alignas(T) unsigned char object[sizeof(T)];
  };
  struct block {
    slot slots[object_block_slots];
  };
  struct block_chunk {
    block blocks[object_chunk_blocks];
  };
  struct free_slots {
    slot* head = nullptr;
    std::size_t length = 0;
  };
  // A block and how many of its slots have been cut.
  struct open_block {
    block* memory = nullptr;
    std::size_t used = object_block_slots;
  };

  // Constant-initialised, so that using it costs no check; what ends with the thread is in `leaver`.
  struct alignas(64) local_pool {
    free_slots free;
    open_block open;
  };

  class alignas(64) global_pool {
   public:
    bool take_chain(free_slots& chain) {
      if (chain_count_.load(std::memory_order_relaxed) == 0) return false;  // no lock for each fresh slot
      const std::lock_guard<spin_lock> guard(chains_lock_);
      if (chains_.empty()) return false;
      chain = chains_.back();
      chains_.pop_back();
      chain_count_.store(chains_.size(), std::memory_order_relaxed);
      return true;
    }
    void give_chain(const free_slots& chain) {
      const std::lock_guard<spin_lock> guard(chains_lock_);
      chains_.push_back(chain);
      chain_count_.store(chains_.size(), std::memory_order_relaxed);
    }
    open_block take_block() {
      const std::lock_guard<std::mutex> guard(blocks_lock_);
      if (!left_.empty()) {
        const open_block block = left_.back();
        left_.pop_back();
        return block;
      }
      if (chunks_.empty() || used_blocks_ == object_chunk_blocks) {
        chunks_.push_back(std::make_unique_for_overwrite<block_chunk>());
        used_blocks_ = 0;
      }
      return {&chunks_.back()->blocks[used_blocks_++], 0};
    }
    void give_block(const open_block& block) {
      const std::lock_guard<std::mutex> guard(blocks_lock_);
      left_.push_back(block);
    }

   private:
    spin_lock chains_lock_;
    std::vector<free_slots> chains_;
    std::atomic<std::size_t> chain_count_{0};
    alignas(64) std::mutex blocks_lock_;
    std::vector<open_block> left_;  // by ended threads
    std::vector<std::unique_ptr<block_chunk>> chunks_;
    std::size_t used_blocks_ = 0;  // of the newest chunk
  };

  // A thread's part that has a constructor and an end: which global pool is its own, and what happens to the rest.
  struct leaver {
    leaver() {
      static std::atomic<std::size_t> threads{0};
      home = &globals()[threads.fetch_add(1, std::memory_order_relaxed) % object_global_pools];
    }
    ~leaver() {
      if (local_.free.head != nullptr) home->give_chain(std::exchange(local_.free, {}));
      if (local_.open.used < object_block_slots) home->give_block(std::exchange(local_.open, {}));
    }
    global_pool* home;
  };

 public:
  static T* allocate() {
    slot* const first = local_.free.head;
    if (first == nullptr) [[unlikely]]
      return allocate_slow();
    local_.free.head = first->next;
    --local_.free.length;
    return reinterpret_cast<T*>(first);
  }
  static void deallocate(T* object) {
    auto* const freed = reinterpret_cast<slot*>(object);
    freed->next = local_.free.head;
    local_.free.head = freed;
    if (++local_.free.length == object_chain_slots) [[unlikely]]
      hand_over();
  }

  template <class... Args>
  static T* New(Args&&... args) {
    return ::new (static_cast<void*>(allocate())) T(std::forward<Args>(args)...);
  }
  static void Delete(T* object) {
    object->~T();
    deallocate(object);
  }

 private:
  static global_pool* globals() {
    static auto* const pools =
        new global_pool[object_global_pools];  // never destroyed: threads may outlive main
    return pools;
  }
  static global_pool& home() {
    static thread_local leaver mine;
    return *mine.home;
  }
  // Used slots come before fresh ones.
  __attribute__((noinline)) static T* allocate_slow() {
    open_block& open = local_.open;
    if (home().take_chain(local_.free)) return allocate();
    if (open.used == object_block_slots) open = home().take_block();
    return reinterpret_cast<T*>(&open.memory->slots[open.used++]);
  }
  __attribute__((noinline)) static void hand_over() { home().give_chain(std::exchange(local_.free, {})); }

  static inline constinit thread_local local_pool local_{};
};

}  // namespace classic
