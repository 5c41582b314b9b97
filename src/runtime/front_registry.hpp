// SPDX-License-Identifier: MIT
// front_registry: the instances of one front (all typed pools, or all recyclers), the threads' bins of them, and what
// happens to both when an instance or a thread ends, and at fork.
//
//     instance->bins -> bin <-> bin    all bins of the instance (next, previous)
//     mine::first -> bin -> bin        all bins of the thread (thread_bins)
//
// An instance (Core) is a front_instance, and is constructed from a request and a name. A bin (Bin) is a front_bin, and
// has
//   table(), no_bin()       the calling thread's table, and the entry for "no bin"
//   outlives_thread         whether destructors of an ending thread may use the bin after thread_ends()
//   join(), leave()         called under the lock: the bin has joined its instance; it is about to leave it
//
// Thread safety: any thread. The lock is held only for walks along lists; work on an instance happens while it is
// pinned, with the lock free. Structures are reused, never given back to the system, so that a stale pointer still
// leads to such a structure.
// Invariants whenever the lock is free, checked by validate():
//   numbers_ = instances in the list + unused instances, and 0 + 1 + ... + (numbers_ - 1) = the sum of their numbers;
//   linked_ = the sum over the instances of the lengths of their lists of bins;
//   a bin is in the list of its instance (core); a bin without one is in none, as are retired and unused bins;
//   the neighbours in a list lead back to each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <string_view>
#include <utility>

#include "base/chain.hpp"
#include "os/invariant.hpp"
#include "os/mutex.hpp"
#include "os/node.hpp"
#include "os/pin_count.hpp"
#include "os/syscall.hpp"
#include "os/thread.hpp"
#include "runtime/engine.hpp"
#include "runtime/front.hpp"
#include "runtime/thread_bins.hpp"

namespace tarn::engine {

// All members are guarded by the registry's lock.
template <class Core, class Bin>
struct front_instance {
  Core* next = nullptr;
  Core* previous = nullptr;
  Bin* bins = nullptr;
  os::pin_count pins;  // while it is pinned, the instance does not end
  std::size_t number = 0;
};

// The requested name. Longer names are cut: two shared pools whose names differ only after this are one.
template <class Request>
std::string_view front_name(const Request& request) {
  constexpr std::size_t longest = 4000;
  return {request.name, std::min(request.name_length, longest)};
}

template <class Core, class Bin>
class front_registry {
 public:
  constexpr explicit front_registry(os::lock_rank rank) : lock_(rank) {}

  os::mutex& lock() TARN_RETURNS_LOCK(lock_) { return lock_; }

  // ---- instances ----

  // The first instance attaches the front. Null when there is no memory.
  template <class Request>
  Core* create(const front& attached_by_use, const Request& request) {
    attach_thread();
    attach(attached_by_use);
    os::lock_guard guard(lock_);
    return make_locked(request);
  }
  // Creates an instance and links it. Null when there is no memory. Requires: the lock is held; the locks of metadata,
  // taken here, rank after it.
  template <class Request>
  Core* make_locked(const Request& request) TARN_REQUIRES(lock_) {
    const std::string_view name = front_name(request);
    auto* const copy = static_cast<char*>(blocks.allocate(name.size() + 1));
    void* const memory = unused_ != nullptr ? unused_ : metadata.allocate(sizeof(Core), alignof(Core));
    if (copy == nullptr || memory == nullptr) {
      if (copy != nullptr) blocks.deallocate(copy, name.size() + 1);
      return nullptr;
    }
    name.copy(copy, name.size());
    copy[name.size()] = '\0';
    const std::size_t number = unused_ != nullptr ? unused_->number : numbers_++;
    chain::pop(unused_);
    auto* const core = new (memory) Core(request, copy);
    core->number = number;
    chain::insert(instances_, core);
    return core;
  }

  // Returns when there are no pins. From here on walks add none; a thread that empties its bin of the instance does,
  // until the bin is detached. So the caller detaches all bins and then calls this again.
  void begin_ending(Core* core) {
    for (;;) {
      {
        os::lock_guard guard(lock_);
        core->pins.begin_ending();
        if (core->pins.is_free()) return;
      }
      core->pins.wait();
    }
  }

  // Keeps the structure, and its number, for the next instance. free_parts() frees metadata of the instance, under the
  // lock. Requires: nobody uses the instance, and it has no bins.
  template <class FreeParts>
  void free(Core* core, FreeParts free_parts) {
    os::lock_guard guard(lock_);
    const std::string_view name = core->name();
    // Moved before the locks of blocks are taken: a fork that goes on without one of them copies a whole registry.
    chain::erase(instances_, core);
    chain::push(unused_, core);
    free_parts();
    blocks.deallocate(const_cast<char*>(name.data()), name.size() + 1);
  }

  // Calls visit(core) for each instance that is not ending, while the instance is pinned.
  template <class Visit>
  void for_each(Visit visit) {
    for (Core* core = pin_next(nullptr); core != nullptr; core = pin_next(core)) visit(*core);
  }

  // Calls visit(core) for every instance. Requires: the lock is held.
  template <class Visit>
  void for_each_locked(Visit visit) TARN_REQUIRES(lock_) {
    for (Core* core = instances_; core != nullptr; core = core->next) visit(*core);
  }

  // ---- bins ----

  // The calling thread's bin of the instance, made if needed. Numbered: found by the instance's number, without a walk
  // along all bins, as the first uses of n instances would take O(n^2) steps. Null when the thread is about to end, or
  // there is no memory.
  Bin* bin_of(Core* core, bool is_numbered) {
    if (mine::ended) return nullptr;
    attach_thread(true);  // a thread that ends unseen leaves its bins to the one that adopts its cache
    if (is_numbered && !mine::grow_to(core->number)) return nullptr;
    Bin* bin = is_numbered ? mine::at(core->number) : find_own(core);
    if (bin != nullptr && bin->core == core) return bin;
    if (bin == nullptr) {
      bin = new_bin();
      if (bin == nullptr) return nullptr;
      bin->cache = local_cache;
      push(mine::first, bin);
    }
    link(bin, core);
    if (is_numbered) mine::set(core->number, bin);
    return bin;
  }

  // A bin without instance and thread; null when there is no memory.
  Bin* new_bin() {
    void* memory = take_unused();
    if (memory == nullptr && Bin::outlives_thread) memory = take_retired();
    if (memory == nullptr) memory = metadata.allocate(sizeof(Bin), separation);
    if (memory == nullptr) return nullptr;
    auto* const bin = new (memory) Bin;
    bin->node = static_cast<std::uint8_t>(os::this_node());
    return bin;
  }

  void link(Bin* bin, Core* core) {
    os::lock_guard guard(lock_);
    bin->core = core;
    insert_bin(bin);
  }

  // Requires: the lock is held.
  void detach_locked(Bin* bin) TARN_REQUIRES(lock_) {
    bin->leave();
    erase_bin(bin);
    bin->core = nullptr;
  }

  // Keeps the bin for new_bin(). Requires: it has no instance, and no thread uses it.
  void keep_unused(Bin* bin) {
    os::lock_guard guard(lock_);
    push(unused_bins_, bin);
  }

  // Calls take(bin), under the lock, for each of the calling thread's bins that has an instance, then put_back(core,
  // what take() has returned), without the lock; the instance is pinned meanwhile, because another thread may be about
  // to end it.
  template <class Take, class PutBack>
  void empty_own_bins(Take take, PutBack put_back) {
    for (Bin* bin = mine::first; bin != nullptr; bin = bin->next_of_thread) empty(bin, take, put_back, [] {});
  }

  // ---- what a front does for the engine ----

  // The calling thread ends: empties its bins, as empty_own_bins(), and detaches them from their instances.
  template <class Take, class PutBack>
  void thread_ends(Take take, PutBack put_back) {
    mine::ended = true;
    Bin* bin = std::exchange(mine::first, nullptr);
    const long self = Bin::outlives_thread && bin != nullptr ? os::system_call(SYS_gettid) : 0;
    while (bin != nullptr) {
      Bin* const next = bin->next_of_thread;
      empty(bin, take, put_back, [&]() TARN_NOT_ANALYZED {  // called under the lock
        if (bin->core != nullptr) detach_locked(bin);
        bin->thread_id = self;
        push(Bin::outlives_thread ? retired_bins_ : unused_bins_, bin);
      });
      bin = next;
    }
    mine::free_table();
    if constexpr (TARN_CHECKS) validate();
  }

  // The calling thread has adopted the thread cache of a thread that ended after its thread_ends(), or without it: it
  // also adopts the bins that the ended thread has left.
  void thread_adopts() {
    os::lock_guard guard(lock_);
    for_each_locked([](Core& core) {
      for (Bin* bin = core.bins; bin != nullptr; bin = bin->next) {
        if (bin->cache == local_cache) push(mine::first, bin);
      }
    });
  }

  // Visits the registry's lock and, in visit(core), those of the instances.
  template <class Visit>
  void walk_locks(const os::lock_walk& walk, Visit visit) {
    walk.list(lock_, [&]() TARN_NOT_ANALYZED { for_each_locked(visit); });  // fork holds the lock
  }

  // Other threads' bins were copied while their threads used them, so what they hold is lost to the child. Calls
  // lose_bins(core) while the list of the instance has only such bins; it returns the one that stays, or null.
  template <class LoseBins>
  void after_fork_in_child(LoseBins lose_bins) {
    os::lock_guard guard(lock_);
    for (Bin* bin = mine::first; bin != nullptr; bin = bin->next_of_thread) {
      if (bin->core != nullptr) erase_bin(bin);
    }
    linked_ = 0;
    for_each_locked([&](Core& core) TARN_NOT_ANALYZED {  // called under the lock
      Bin* const kept = lose_bins(core);
      core.bins = nullptr;
      core.pins.reset();
      if (kept != nullptr) insert_bin(kept);
    });
    for (Bin* bin = mine::first; bin != nullptr; bin = bin->next_of_thread) {
      if (bin->core != nullptr) insert_bin(bin);
    }
    check_locked();
  }

  // Checks the invariants.
  void validate() {
    os::lock_guard guard(lock_);
    validate_locked();
  }
  void validate_locked() const TARN_REQUIRES(lock_) {
    std::size_t instances = 0;
    std::size_t sum = 0;
    std::size_t linked = 0;
    // The counts also end walks along lists that are circles.
    for (const Core* core = instances_; core != nullptr; core = core->next) {
      TARN_INVARIANT("front_registry", this, ++instances <= numbers_);
      TARN_INVARIANT("front_registry", this, chain::is_linked<Core>(instances_, core));
      sum += core->number;
      for (const Bin* bin = core->bins; bin != nullptr; bin = bin->next) {
        TARN_INVARIANT("front_registry", this, ++linked <= linked_);
        TARN_INVARIANT("front_registry", this, bin->core == core);
        TARN_INVARIANT("front_registry", this, chain::is_linked<Bin>(core->bins, bin));
      }
    }
    for (const Core* core = unused_; core != nullptr; core = core->next) {
      TARN_INVARIANT("front_registry", this, ++instances <= numbers_);
      TARN_INVARIANT("front_registry", this, core->bins == nullptr);
      sum += core->number;
    }
    for (const Bin* list : {unused_bins_, retired_bins_}) {
      for (const Bin* bin = list; bin != nullptr; bin = bin->next_of_thread)
        TARN_INVARIANT("front_registry", this, bin->core == nullptr);
    }
    for (const Bin* bin = mine::first; bin != nullptr; bin = bin->next_of_thread) {
      TARN_INVARIANT("front_registry", this,
                     bin->core == nullptr || chain::is_linked<Bin>(bin->core->bins, bin));
    }
    TARN_INVARIANT("front_registry", this, instances == numbers_);
    TARN_INVARIANT("front_registry", this, sum == numbers_ * (numbers_ - 1) / 2);
    TARN_INVARIANT("front_registry", this, linked == linked_);
  }

 private:
  using mine = thread_bins<Bin>;

  // ---- lists of bins ----

  void insert_bin(Bin* bin) TARN_REQUIRES(lock_) {
    chain::insert(bin->core->bins, bin);
    ++linked_;
    bin->join();
  }
  void erase_bin(Bin* bin) TARN_REQUIRES(lock_) {
    chain::erase(bin->core->bins, bin);
    --linked_;
  }
  static void push(Bin*& list, Bin* bin) { chain::push(list, bin, &Bin::next_of_thread); }
  static Bin* pop(Bin*& list) { return chain::pop(list, &Bin::next_of_thread); }

  // ---- pins ----

  // Pins and returns `core`, or the first instance after it in the list that is not ending; null if there is none.
  static Core* pin_first_locked(Core* core) {
    while (core != nullptr && core->pins.is_ending()) core = core->next;
    if (core != nullptr) core->pins.pin();
    return core;
  }

  // Unpins `core`, if not null, and pins and returns the instance after it, or the first one; null if there is none.
  TARN_NOINLINE Core* pin_next(Core* core) {
    Core* next = nullptr;
    {
      os::lock_guard guard(lock_);
      if (core == nullptr) check_locked();
      next = pin_first_locked(core != nullptr ? core->next : instances_);
    }
    if (core != nullptr) unpin(core);
    return next;
  }
  TARN_NOINLINE void unpin(Core* core) {
    bool ends = false;
    {
      os::lock_guard guard(lock_);
      ends = core->pins.unpin();
    }
    if (ends) core->pins.wake();
  }

  // ---- bins ----

  Bin* take_unused() {
    os::lock_guard guard(lock_);
    return pop(unused_bins_);
  }

  // A retired bin for reuse, if its thread has ended for certain; else null.
  Bin* take_retired() {
    // ThreadSanitizer cannot see that tgkill() orders the reuse after the thread's end.
    if (TARN_TSAN) return nullptr;
    Bin* bin = nullptr;
    {
      os::lock_guard guard(lock_);
      bin = pop(retired_bins_);
    }
    if (bin == nullptr || !os::thread_exists(os::system_call(SYS_getpid), bin->thread_id)) return bin;
    os::lock_guard guard(lock_);
    push(retired_bins_, bin);
    return nullptr;
  }

  // The calling thread's bin of the instance, or one of its bins whose instance has ended, for reuse; null if there is
  // neither.
  Bin* find_own(const Core* core) {
    // The lock is needed because another thread that ends an instance detaches the bins.
    os::lock_guard guard(lock_);
    Bin* detached = nullptr;
    for (Bin* bin = mine::first; bin != nullptr; bin = bin->next_of_thread) {
      if (bin->core == core) return bin;
      if (bin->core == nullptr) detached = bin;
    }
    // The number under which it stands may belong to another instance by now.
    if (detached != nullptr) mine::remove(detached);
    return detached;
  }

  // See empty_own_bins(). Calls finish_locked() last under the lock.
  template <class Take, class PutBack, class Finish>
  void empty(Bin* bin, Take take, PutBack put_back, Finish finish_locked) {
    decltype(take(*bin)) taken{};
    Core* core = nullptr;
    {
      os::lock_guard guard(lock_);
      core = bin->core;
      if (core != nullptr) {
        taken = take(*bin);
        core->pins.pin();
      }
      finish_locked();
    }
    if (core == nullptr) return;
    put_back(*core, taken);
    unpin(core);
  }

  // ---- invariants ----

  void check_locked() const TARN_REQUIRES(lock_) {
    if (os::is_check_due()) validate_locked();
  }

  os::mutex lock_;
  Core* instances_ TARN_GUARDED_BY(lock_) = nullptr;
  Core* unused_ TARN_GUARDED_BY(lock_) = nullptr;  // linked by `next`
  Bin* unused_bins_ TARN_GUARDED_BY(lock_) = nullptr;
  // Bins of threads that are ending or have ended, and whose destructors may still use them until the thread is gone.
  Bin* retired_bins_ TARN_GUARDED_BY(lock_) = nullptr;
  std::size_t numbers_ TARN_GUARDED_BY(lock_) = 0;  // given out so far
  std::size_t linked_ TARN_GUARDED_BY(lock_) = 0;   // bins in lists of instances
};

}  // namespace tarn::engine
