// SPDX-License-Identifier: MIT
// thread_lists: the threads that have bins of one front (thread_bins), for its front_registry, whose lock guards them.
//
// Thread safety: any thread. Members named _locked require the lock, the others take it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <new>

#include "base/chain.hpp"
#include "engine/thread_bins.hpp"
#include "os/futex.hpp"
#include "os/mutex.hpp"

namespace tarn::engine {

template <class Bin>
class thread_lists {
  using mine = thread_bins<Bin>;

 public:
  constexpr explicit thread_lists(os::mutex& lock) : lock_(lock) {}

  // The calling thread's; null: no memory.
  mine* of_caller() {
    if (mine::of_caller != nullptr) return mine::of_caller;
    void* const memory = blocks.allocate(sizeof(mine));
    if (memory == nullptr) return nullptr;
    mine* const own = new (memory) mine;
    own->cache = local_cache;
    os::lock_guard guard(lock_);
    chain::insert(first_, own);
    return mine::of_caller = own;
  }
  // Requires: it has no bins, and its thread does not use it any more.
  void forget(mine& gone) {
    with_table(gone, [&]() TARN_NOT_ANALYZED { chain::erase(first_, &gone); });
    mine::free_table(gone.all);
    blocks.deallocate(&gone, sizeof(mine));
  }
  // The entry of a thread whose end nobody noticed, and whose cache this thread has taken over. Null: there is none.
  mine* find_left() {
    os::lock_guard guard(lock_);
    mine* t = first_;
    while (t != nullptr && (t == mine::of_caller || t->cache != local_cache)) t = t->next;
    return t;
  }

  // Grows the calling thread's table until it has an entry `number`. False when there is no memory.
  bool grow_to(mine& own, std::size_t number) {
    constexpr std::size_t first_count = 8;
    if (number < own.all.count) return true;
    const std::size_t count = std::max(first_count, std::bit_ceil(number + 1));
    auto* const bins = mine::new_table(count);
    if (bins == nullptr) return false;
    const auto old = own.all;
    with_table(own, [&] {
      for (std::size_t i = 0; i < old.count; ++i) {
        if (old.bins[i] != Bin::no_bin()) bins[i] = old.bins[i];
      }
      Bin::table() = own.all = {bins, count};
      own.is_touched = true;
    });
    mine::free_table(old);
    return true;
  }

  // Calls work() under the lock, and not while another thread gives the table's pages back: what work() writes to them
  // would be lost.
  template <class Work>
  void with_table(const mine& of, Work work) {
    for (;; os::sleep_ms(1)) {
      os::lock_guard guard(lock_);
      if (of.is_held) continue;
      work();
      return;
    }
  }

  // Gives pages of tables without bins back to the system.
  void age() {
    while (mine* const idle = hold_idle_table()) {
      const bool is_zero = mine::drop_pages(idle->all);
      os::lock_guard guard(lock_);
      idle->is_held = false;
      idle->is_touched = false;
      if (!is_zero) return;
    }
  }
  // Whether age() may find something to give back.
  [[nodiscard]] bool has_work_locked() const {
    for (const mine* t = first_; t != nullptr; t = t->next) {
      if (t->has_idle_pages()) return true;
    }
    return false;
  }

  // In a forked child: the other threads are not here.
  void keep_caller_locked() {
    first_ = mine::of_caller;
    if (first_ == nullptr) return;
    first_->next = first_->previous = nullptr;
    first_->is_held = false;
  }

 private:
  mine* hold_idle_table() {
    os::lock_guard guard(lock_);
    for (mine* t = first_; t != nullptr; t = t->next) {
      if (!t->has_idle_pages()) continue;
      t->is_held = true;
      return t;
    }
    return nullptr;
  }

  os::mutex& lock_;
  mine* first_ = nullptr;
};

}  // namespace tarn::engine
