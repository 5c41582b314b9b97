// SPDX-License-Identifier: MIT
// The references of the pool benchmarks: the least that a pool can do, without any of what makes one usable. They
//   never give memory back, and what one thread returns serves that thread alone.
// Thread safety: bare_chain one thread; the two others any.
#pragma once

#include "contender.hpp"

namespace bench {

// Fresh slots, cut from blocks of 64 KiB that stay for ever.
template <class T>
class fresh_slots {
  union alignas(T) alignas(void*) slot {
    void* link;  // room for a chain
    unsigned char object[sizeof(T)];
  };
  static constexpr std::size_t block_slots = std::max<std::size_t>(65536 / sizeof(slot), 1);

 public:
  T* take() {
    if (left_ == 0) [[unlikely]]
      refill();
    --left_;
    return reinterpret_cast<T*>(next_++);
  }

 private:
  __attribute__((noinline)) void refill() {
    next_ = static_cast<slot*>(::operator new(block_slots * sizeof(slot), std::align_val_t(alignof(slot))));
    left_ = block_slots;
  }
  slot* next_ = nullptr;
  std::size_t left_ = 0;
};

template <class T>
struct chain_of_slots {
  void** head = nullptr;
  fresh_slots<T> fresh;

  T* take() {
    void** const first = head;
    if (first == nullptr) [[unlikely]]
      return fresh.take();
    head = static_cast<void**>(*first);
    return reinterpret_cast<T*>(first);
  }
  void give(T* object) {
    auto* const first = reinterpret_cast<void**>(object);
    *first = head;
    head = first;
  }
};

template <class T>
struct array_of_slots {
  T** top = nullptr;
  T** begin = nullptr;
  T** end = nullptr;
  fresh_slots<T> fresh;

  T* take() {
    if (top == begin) [[unlikely]]
      return fresh.take();
    return *--top;
  }
  void give(T* object) {
    if (top == end) [[unlikely]]
      grow();
    *top++ = object;
  }
  __attribute__((noinline)) void grow() {
    const std::size_t length = static_cast<std::size_t>(end - begin);
    const std::size_t wanted = std::max<std::size_t>(2 * length, 1024);
    begin = static_cast<T**>(std::realloc(begin, wanted * sizeof(T*)));
    if (begin == nullptr) fail("realloc returned null");
    top = begin + length;
    end = begin + wanted;
  }
};

struct bare_chain {
  static constexpr const char* name = "bare-chain";
  template <class T>
  using of = chain_of_slots<T>;
};

struct bare_thread_chain {
  static constexpr const char* name = "bare-thread-chain";
  template <class T>
  struct of {
    T* take() { return local.take(); }
    void give(T* object) { local.give(object); }
    static inline constinit thread_local chain_of_slots<T> local{};
  };
};

struct bare_thread_array {
  static constexpr const char* name = "bare-thread-array";
  template <class T>
  struct of {
    T* take() { return local.take(); }
    void give(T* object) { local.give(object); }
    static inline constinit thread_local array_of_slots<T> local{};
  };
};

}  // namespace bench
