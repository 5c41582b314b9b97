// SPDX-License-Identifier: MIT
// span_supply: span structures that are not in use. Spans are cut under the page heap's lock, which is never held across a
// system call, so the structures for it are made before.
//
// Thread safety: guarded by the page heap's lock, except make(), has_returns(), give_memory_back() and what concerns the
// store's own lock.
// Invariants (validate()): count_ is the length of spare_; lowest_.lowest() <= count_.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/chain.hpp"
#include "base/low_mark.hpp"
#include "pages/metadata_pool.hpp"
#include "pages/span.hpp"

namespace tarn {

class span_supply {
 public:
  // Taking a span (two cuts) and the growth before it need at most this many structures.
  static constexpr std::uint32_t needed = 4;
  // So many are made at a time, and stay here.
  static constexpr std::uint32_t group = 16;

  [[nodiscard]] bool is_ready() const { return count_ >= needed; }

  // A structure that is not in use; null: no memory. It is retired: zeros, or what an earlier span has left. Nothing is
  // constructed, because another thread may have come here by a stale entry of the page map, and may be reading.
  span* make(metadata_arena& metadata) {
    auto* const s = static_cast<span*>(store_.allocate(metadata));
    if (s != nullptr) s->retire();  // touches the memory, which put() would do with the lock held
    return s;
  }
  void put(span* s) {
    s->retire();
    chain::push(spare_, s);
    ++count_;
  }
  // The same for `count` structures that are retired, linked from `first` to `last`.
  void put_all(span* first, span* last, std::uint32_t count) {
    last->next = spare_;
    spare_ = first;
    count_ += count;
  }
  // Null: there is none. Otherwise a span without pages that is in transit.
  span* take() {
    span* const s = chain::pop(spare_);
    if (s == nullptr) return nullptr;
    lowest_.note(--count_);
    s->next = nullptr;
    s->pages = 0;  // a stale entry of the page map that leads to it finds no page
    s->state.store(span_state::purging,
                   std::memory_order_relaxed);  // not `free`, which neighbours would join
    return s;
  }

  // Ends a period of decay: how many structures nobody has needed in it, without those that a forked child has inherited.
  std::uint32_t end_period() {
    const std::uint32_t idle = lowest_.end_period(count_);
    inherited_ = std::min(inherited_, idle);
    return idle - inherited_;
  }
  // Gives up some of `idle` structures, and returns how many of these are left; 0: no more can be given up.
  std::uint32_t give_up(std::uint32_t idle) {
    constexpr std::uint32_t at_once = 256;  // with the lock held
    for (std::uint32_t i = 0; i < at_once && idle > group && count_ > group; ++i, --idle) {
      store_.deallocate(chain::pop(spare_));
      lowest_.note(--count_);
    }
    return idle > group && count_ > group ? idle : 0;
  }
  [[nodiscard]] bool has_many() const { return count_ > 512 + inherited_; }
  // The same questions of what was given up.
  [[nodiscard]] bool has_returns() { return store_.has_work(); }
  void give_memory_back(metadata_arena& metadata) { store_.age(metadata); }

  // In a forked child: what another thread was giving back is here as it was, and what is here stays (metadata_pool.hpp).
  void forget_holds() {
    inherited_ = count_;
    lowest_.end_period(count_);
    store_.forget_holds();
  }
  os::mutex& store_lock() { return store_.lock(); }

  void validate() const {
    std::size_t length = 0;
    for (const span* s = spare_; s != nullptr; s = s->next) ++length;
    TARN_INVARIANT("span_supply", this, count_ == length);
    TARN_INVARIANT("span_supply", this, lowest_.lowest() <= count_);
  }

 private:
  friend class span_supply_test_access;

  span* spare_ = nullptr;  // linked by next
  std::uint32_t count_ = 0;
  std::uint32_t inherited_ = 0;
  low_mark lowest_;
  metadata_pool store_{sizeof(span), alignof(span)};
};

}  // namespace tarn
