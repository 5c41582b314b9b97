// SPDX-License-Identifier: MIT
// tier_owner: variant (b): a span belongs to the thread that refilled from it. The owner's bits are plain;
// others
//   set atomic remote bits and tell the owner once per harvest. A dying thread's spans go to the orphan heap,
//   which the lock guards and whoever runs dry adopts from.
// Owner: free_state_owner. Thread safety: a heap's lists by its thread alone; remote, pending, owner by all.
// Invariant: a set remote bit implies pending, or a thread that is about to set it; a pending span is on the
//   remote stack of some heap, or on its way to one.
#pragma once

#include <array>
#include <bit>

#include "mini_span_heap.hpp"

namespace experiment {

template <std::size_t object_bytes>
class owner_tier {
 public:
  static constexpr std::size_t capacity = span_bytes / object_bytes;
  static constexpr std::size_t words = capacity / 64;
  struct heap;
  struct alignas(64) span {
    char* begin = nullptr;
    std::atomic<heap*> owner{nullptr};
    std::uint32_t free_count = 0;
    bool in_list = false;
    std::array<std::uint64_t, words> free_bits{};
    span* previous = nullptr;
    span* next = nullptr;
    span* owned_previous = nullptr;
    span* owned_next = nullptr;
    alignas(64) std::array<std::atomic<std::uint64_t>, words> remote_bits{};
    std::atomic<bool> pending{false};
    span* remote_next = nullptr;
  };
  struct heap {
    span_list<span> partial;
    span* owned = nullptr;
    alignas(64) std::atomic<span*> remote{nullptr};
  };
  struct local {
    heap* mine = nullptr;
  };
  static constexpr const char* name = "b owner thread";
  static constexpr bool shares = true;

  ~owner_tier() {
    for (heap* each : heaps_) delete each;
  }

  std::size_t refill(local& here, void** out, std::size_t want) {
    heap& mine = *heap_of(here);
    std::size_t got = 0;
    while (got < want) {
      if (mine.partial.empty()) harvest(mine);
      if (mine.partial.empty() && !adopt(mine)) own(mine, fresh());
      span* from = mine.partial.front();
      got += take(*from, out + got, want - got);
      if (from->free_count == 0) mine.partial.remove(from);
    }
    return got;
  }

  void flush(local& here, void** in, std::size_t count) {
    heap* mine = heap_of(here);
    for (std::size_t index = 0; index < count; ++index) __builtin_prefetch(spans_.span_of(in[index]), 1);
    bool orphans = false;
    for (std::size_t index = 0; index < count; ++index) {
      span* to = spans_.span_of(in[index]);
      const std::size_t slot =
          static_cast<std::size_t>(static_cast<char*>(in[index]) - to->begin) / object_bytes;
      heap* owner = to->owner.load(std::memory_order_acquire);
      if (owner == mine) {
        put(*mine, *to, slot / 64, std::uint64_t{1} << (slot % 64), 1);
      } else {
        put_remote(*to, owner, slot);
        orphans |= owner == &orphan_;
      }
    }
    if (orphans) {
      const std::lock_guard guard(lock_);
      harvest(orphan_);
    }
  }

  void thread_end(local& here) {
    if (here.mine == nullptr) return;
    heap& mine = *here.mine;
    harvest(mine);
    const std::lock_guard guard(lock_);
    while (span* each = mine.owned) {
      if (each->in_list) mine.partial.remove(each);
      disown(mine, *each);
      own(orphan_, each);
    }
    harvest(mine);  // notices that came while the owner changed
    harvest(orphan_);
  }
  span_heap<span>& spans() { return spans_; }

 private:
  heap* heap_of(local& here) {
    if (here.mine == nullptr) {
      const std::lock_guard guard(lock_);
      here.mine = new heap;
      heaps_.push_back(here.mine);
    }
    return here.mine;
  }
  span* fresh() {
    span* result = spans_.take();
    result->free_bits.fill(~std::uint64_t{0});
    result->free_count = capacity;
    return result;
  }
  void own(heap& who, span* what) {
    what->owned_previous = nullptr;
    what->owned_next = who.owned;
    if (who.owned != nullptr) who.owned->owned_previous = what;
    who.owned = what;
    if (what->free_count != 0) who.partial.push_back(what);
    // seq_cst: pairs with the second load of owner in notify.
    what->owner.store(&who, std::memory_order_seq_cst);
  }
  // Unlinks only: while objects are out, owner goes from heap to heap and is never null.
  void disown(heap& who, span& what) {
    (what.owned_previous != nullptr ? what.owned_previous->owned_next : who.owned) = what.owned_next;
    if (what.owned_next != nullptr) what.owned_next->owned_previous = what.owned_previous;
  }
  bool adopt(heap& mine) {
    // A thread that misses an orphan takes a fresh span, nothing worse.
    if (orphans_.load(std::memory_order_relaxed) == 0) return false;
    const std::lock_guard guard(lock_);
    harvest(orphan_);
    span* found = orphan_.partial.pop_front();
    if (found == nullptr) return false;
    disown(orphan_, *found);
    own(mine, found);
    harvest(orphan_);  // passes on notices that came while the owner changed
    return !mine.partial.empty();
  }

  std::size_t take(span& from, void** out, std::size_t want) {
    std::size_t got = 0;
    for (std::size_t word = 0; word < words && got < want; ++word) {
      std::uint64_t bits = from.free_bits[word];
      for (; bits != 0 && got < want; bits &= bits - 1) {
        const auto bit = static_cast<std::size_t>(std::countr_zero(bits));
        out[got++] = from.begin + (word * 64 + bit) * object_bytes;
      }
      from.free_bits[word] = bits;
    }
    from.free_count -= static_cast<std::uint32_t>(got);
    return got;
  }
  // Returns false if the span left for the page heap: the caller must not touch it again.
  bool put(heap& mine, span& to, std::size_t word, std::uint64_t bits, unsigned count) {
    if ((to.free_bits[word] & bits) != 0) die("double free");
    to.free_bits[word] |= bits;
    if (to.free_count == 0) mine.partial.push_back(&to);
    to.free_count += count;
    if (&mine == &orphan_) orphans_.store(1, std::memory_order_relaxed);
    if (to.free_count != capacity) return true;
    mine.partial.remove(&to);
    disown(mine, to);
    to.owner.store(nullptr, std::memory_order_seq_cst);
    spans_.give_back(&to);
    return false;
  }
  void put_remote(span& to, heap* owner, std::size_t slot) {
    const std::uint64_t bit = std::uint64_t{1} << (slot % 64);
    // seq_cst: harvest clears pending before it takes the bits, here the bit is set before pending.
    if ((to.remote_bits[slot / 64].fetch_or(bit, std::memory_order_seq_cst) & bit) != 0) die("double free");
    notify(to, owner);
  }
  void notify(span& to, heap* owner) {
    if (to.pending.load(std::memory_order_seq_cst)) return;
    if (to.pending.exchange(true, std::memory_order_seq_cst)) return;
    push(to, owner);
    if (to.owner.load(std::memory_order_seq_cst) != owner) pass_on(*owner);
  }
  void push(span& what, heap* to) {
    span* head = to->remote.load(std::memory_order_relaxed);
    do what.remote_next = head;
    while (!to->remote.compare_exchange_weak(head, &what, std::memory_order_seq_cst));
  }
  // A span changed its owner between the two loads of a notifier: give all notices to whom they concern.
  void pass_on(heap& from) {
    span* each = from.remote.exchange(nullptr, std::memory_order_seq_cst);
    while (each != nullptr) {
      span* next = each->remote_next;
      each->pending.store(false, std::memory_order_seq_cst);
      heap* owner = each->owner.load(std::memory_order_seq_cst);
      if (owner != nullptr) notify(*each, owner);
      each = next;
    }
  }
  // By the heap's own thread; for the orphan heap under the lock.
  void harvest(heap& mine) {
    if (mine.remote.load(std::memory_order_relaxed) == nullptr) return;
    span* each = mine.remote.exchange(nullptr, std::memory_order_seq_cst);
    while (each != nullptr) {
      span* next = each->remote_next;
      each->pending.store(false, std::memory_order_seq_cst);
      heap* owner = each->owner.load(std::memory_order_seq_cst);
      if (owner == &mine) {
        collect(mine, *each);
      } else if (owner != nullptr) {
        notify(*each, owner);
      }
      each = next;
    }
  }
  void collect(heap& mine, span& from) {
    for (std::size_t word = 0; word < words; ++word) {
      const std::uint64_t bits = from.remote_bits[word].exchange(0, std::memory_order_seq_cst);
      if (bits == 0) continue;
      if (!put(mine, from, word, bits, static_cast<unsigned>(std::popcount(bits)))) return;
    }
  }

  short_lock lock_;
  heap orphan_;
  std::atomic<int> orphans_{0};
  std::vector<heap*> heaps_;
  span_heap<span> spans_;
};

}  // namespace experiment
