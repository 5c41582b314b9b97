// SPDX-License-Identifier: MIT
// front_registry: the instances of one front (all typed pools, or all recyclers), the threads' bins of them, and what
// happens to both when an instance or a thread ends, and at fork.
//
//     instance->bins -> bin <-> bin    all bins of the instance (next, previous)
//     thread_lists -> thread_bins      the threads that have bins, each with its list and its table
//
// An instance (Core) is a front_instance, and is constructed from a request and a name. A bin (Bin) is a front_bin, and
// has
//   table(), no_bin()       the calling thread's table, and the entry for "no bin"
//   outlives_thread         whether destructors of an ending thread may use the bin after thread_ends()
//   join(), leave()         called under the lock: the bin has joined its instance; it is about to leave it
// Who ends an instance takes its bins out of the threads' lists and tables, and the structures go back to the stores, which
// give their memory back when no instance near them is left (structure_store): so 100,000 instances that were there once
// cost nothing, however many threads have used them. An instance's number is that of its memory in the store.
//
// Thread safety: any thread. The lock is held only for walks along lists; work on an instance happens while it is
// pinned, with the lock free. A stale pointer leads to a structure of the same kind, or to zeros.
// Invariants whenever the lock is free, checked by validate():
//   the instances in the list are those that are taken from the store, under their number;
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
#include "engine/engine.hpp"
#include "engine/front.hpp"
#include "engine/front_name.hpp"
#include "engine/thread_bins.hpp"
#include "engine/thread_lists.hpp"
#include "os/invariant.hpp"
#include "os/mutex.hpp"
#include "os/node.hpp"
#include "os/own_threads/thread.hpp"
#include "os/pin_count.hpp"
#include "os/syscall.hpp"
#include "pages/structure_store.hpp"

namespace tarn::engine {

// All members are guarded by the registry's lock.
template <class Core, class Bin>
struct front_instance {
  // Whether the name of a request stays for ever; else it is copied.
  static constexpr bool keeps_names = false;

  Core* next = nullptr;
  Core* previous = nullptr;
  Bin* bins = nullptr;
  os::pin_count pins;  // while it is pinned, the instance does not end
  std::size_t number = 0;
};

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
    const char* const copy = keep_name(name, Core::keeps_names);
    if (copy == nullptr) return nullptr;
    const structure_store::structure taken = cores_.take();
    if (taken.memory == nullptr) {
      drop_name(copy, name.size(), Core::keeps_names);
      return nullptr;
    }
    auto* const core = new (taken.memory) Core(request, copy);
    core->number = taken.number;
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

  // The instance ends: calls take(bin), under the lock, for each of its bins and detaches it; returns when nobody has the
  // instance pinned, as a thread that was about to end may have done meanwhile, to empty its bin.
  template <class Take>
  void detach_bins(Core* core, Take take) {
    begin_ending(core);
    {
      os::lock_guard guard(lock_);
      while (Bin* const bin = core->bins) {
        take(*bin);
        detach_locked(bin);
      }
    }
    begin_ending(core);
  }

  // The structure, and its number, may serve the next instance. free_parts() frees metadata of the instance, under the
  // lock. Requires: nobody uses the instance, and it has no bins.
  template <class FreeParts>
  void free(Core* core, FreeParts free_parts) {
    constexpr std::size_t worth_waking = 256 * kib;
    std::size_t idle = 0;
    {
      os::lock_guard guard(lock_);
      const std::string_view name = core->name();
      // Moved before the locks of blocks are taken: a fork that goes on without one of them copies a whole registry.
      chain::erase(instances_, core);
      cores_.put(static_cast<std::uint32_t>(core->number));
      free_parts();
      drop_name(name.data(), name.size(), Core::keeps_names);
      idle = cores_.idle_bytes() + bins_.idle_bytes();
    }
    if (idle >= worth_waking) central_tier.wake_decay();
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
    mine* const own = threads_.of_caller();
    if (own == nullptr || (is_numbered && !threads_.grow_to(*own, core->number))) return nullptr;
    Bin* bin = is_numbered ? mine::at(core->number) : find_own(*own, core);
    if (bin != nullptr) return bin;
    bin = new_bin();
    if (bin == nullptr) return nullptr;
    threads_.with_table(*own, [&]() TARN_NOT_ANALYZED {
      bin->thread = own;
      mine::push(own->first, bin);
      if (is_numbered) own->set(core->number, bin);
      link_locked(bin, core);
    });
    return bin;
  }

  // A bin without instance and thread; null when there is no memory.
  Bin* new_bin() {
    if (Bin* const bin = Bin::outlives_thread ? take_retired() : nullptr)
      return make_bin({bin, std::exchange(bin->store_number, 0) - 1});
    os::lock_guard guard(lock_);
    const structure_store::structure taken = bins_.take();
    return taken.memory != nullptr ? make_bin(taken) : nullptr;
  }

  void link(Bin* bin, Core* core) {
    os::lock_guard guard(lock_);
    link_locked(bin, core);
  }

  // The instance ends: its bin leaves it. A thread's bin may serve another thread at once; one without a thread is left to
  // its owner. Requires: the lock is held, and no thread uses the bin.
  void detach_locked(Bin* bin) TARN_REQUIRES(lock_) {
    const bool is_of_thread = bin->thread != nullptr;
    unlink_locked(bin);
    if (is_of_thread) bins_.put(bin->store_number - 1);
  }

  // Keeps the bin for new_bin(). Requires: it has no instance, and no thread uses it.
  void keep_unused(Bin* bin) {
    os::lock_guard guard(lock_);
    if (bin->store_number != 0) bins_.put(bin->store_number - 1);
  }

  // Calls take(bin), under the lock, for each of the calling thread's bins, then put_back(core, what take() has returned),
  // without the lock; the instance is pinned meanwhile, because another thread may be about to end it. Does nothing when
  // put_back() leads here.
  template <class Take, class PutBack>
  void empty_own_bins(Take take, PutBack put_back) {
    mine* const own = mine::of_caller;
    static thread_local constinit bool is_inside = false;
    if (own == nullptr || is_inside) return;
    is_inside = true;
    const auto finish = [own](Bin* bin) {
      mine::erase(bin);
      mine::push(own->emptied, bin);
    };
    while (empty_first(*own, take, put_back, finish)) {
    }
    is_inside = false;
    os::lock_guard guard(lock_);
    own->join_lists();
  }

  // ---- what a front does for the engine ----

  // A period of decay.
  void age() TARN_NOT_ANALYZED {  // age() of the stores takes the lock
    for (Bin* all = take_all_retired(); Bin* const bin = pop(all);) {
      const bool has_ended = !thread_exists(bin->thread_id);
      os::lock_guard guard(lock_);
      if (has_ended) {
        bins_.put(bin->store_number - 1);
      } else {
        push(retired_bins_, bin);
      }
    }
    bins_.age(lock_);
    cores_.age(lock_);
    threads_.age();
  }
  // Whether age() may find something to give back.
  bool has_work() {
    os::lock_guard guard(lock_);
    return bins_.idle_bytes() != 0 || cores_.idle_bytes() != 0 || threads_.has_work_locked();
  }

  // The calling thread ends: empties its bins, as empty_own_bins(), and detaches them from their instances.
  template <class Take, class PutBack>
  void thread_ends(Take take, PutBack put_back) {
    mine::ended = true;
    mine* const own = mine::of_caller;
    if (own == nullptr) return;
    const long self = Bin::outlives_thread ? os::system_call(SYS_gettid) : 0;
    {
      os::lock_guard guard(lock_);
      own->join_lists();
    }
    const auto finish = [&](Bin* bin) TARN_NOT_ANALYZED {  // called under the lock
      unlink_locked(bin);
      if (Bin::outlives_thread) {
        bin->thread_id = self;
        push(retired_bins_, bin);
      } else {
        bins_.put(bin->store_number - 1);
      }
    };
    while (empty_first(*own, take, put_back, finish)) {
    }
    threads_.forget(*own);
    mine::of_caller = nullptr;
    Bin::table() = {nullptr, 0};
    if constexpr (TARN_CHECKS) validate();
  }

  // The calling thread has adopted the thread cache of a thread that ended after its thread_ends(), or without it: it
  // also adopts the bins that the ended thread has left.
  void thread_adopts() {
    for (;;) {
      mine* const left = threads_.find_left();
      if (left == nullptr) return;
      mine* const own = threads_.of_caller();
      if (own == nullptr) return;
      {
        os::lock_guard guard(lock_);
        left->join_lists();
        while (Bin* const bin = left->first) {
          mine::erase(bin);
          mine::push(own->first, bin);
          bin->thread = own;
        }
      }
      threads_.forget(*left);
    }
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
    threads_.keep_caller_locked();
    mine* const own = mine::of_caller;
    if (own != nullptr) own->for_each([&](Bin* bin) TARN_NOT_ANALYZED { erase_bin(bin); });
    cores_.forget_holds();
    bins_.forget_holds();
    linked_ = 0;
    for_each_locked([&](Core& core) TARN_NOT_ANALYZED {  // called under the lock
      Bin* const kept = lose_bins(core);
      core.bins = nullptr;
      core.pins.reset();
      if (kept != nullptr) insert_bin(kept);
    });
    if (own != nullptr) own->for_each([&](Bin* bin) TARN_NOT_ANALYZED { insert_bin(bin); });
    check_locked();
  }

  // Checks the invariants.
  void validate() {
    os::lock_guard guard(lock_);
    validate_locked();
  }
  void validate_locked() const TARN_REQUIRES(lock_) {
    std::size_t instances = 0;
    std::size_t linked = 0;
    // The counts also end walks along lists that are circles.
    for (const Core* core = instances_; core != nullptr; core = core->next) {
      TARN_INVARIANT("front_registry", this, ++instances <= cores_.taken());
      TARN_INVARIANT("front_registry", this, chain::is_linked<Core>(instances_, core));
      const auto number = static_cast<std::uint32_t>(core->number);
      TARN_INVARIANT("front_registry", this, cores_.is_taken(number) && cores_.at(number) == core);
      for (const Bin* bin = core->bins; bin != nullptr; bin = bin->next) {
        TARN_INVARIANT("front_registry", this, ++linked <= linked_);
        TARN_INVARIANT("front_registry", this, bin->core == core);
        TARN_INVARIANT("front_registry", this, chain::is_linked<Bin>(core->bins, bin));
      }
    }
    for (const Bin* bin = retired_bins_; bin != nullptr; bin = bin->next_of_thread)
      TARN_INVARIANT("front_registry", this, bin->core == nullptr);
    if (mine::of_caller != nullptr) {
      mine::of_caller->for_each([&](const Bin* bin) TARN_NOT_ANALYZED {
        TARN_INVARIANT("front_registry", this, *bin->link_of_thread == bin && bin->thread == mine::of_caller);
        TARN_INVARIANT("front_registry", this, bin->core != nullptr);
        TARN_INVARIANT("front_registry", this, chain::is_linked<Bin>(bin->core->bins, bin));
      });
    }
    cores_.validate_locked();
    bins_.validate_locked();
    TARN_INVARIANT("front_registry", this, instances == cores_.taken());
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
  void link_locked(Bin* bin, Core* core) TARN_REQUIRES(lock_) {
    bin->core = core;
    insert_bin(bin);
  }
  // The bin has neither an instance nor a thread any more.
  void unlink_locked(Bin* bin) TARN_REQUIRES(lock_) {
    bin->leave();
    erase_bin(bin);
    if (bin->thread != nullptr) {
      mine::erase(bin);
      bin->thread->clear(bin->core->number, bin);
      bin->thread = nullptr;
    }
    bin->core = nullptr;
  }
  // Retired bins.
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

  // A bin that has been used has nothing in it.
  static Bin* make_bin(structure_store::structure taken) {
    auto* bin = static_cast<Bin*>(taken.memory);
    // Not read before it is written: fresh memory would fault twice.
    if (__atomic_exchange_n(&bin->store_number, taken.number + 1, __ATOMIC_RELAXED) == 0) {
      bin = new (taken.memory) Bin;
      bin->store_number = taken.number + 1;
    }
    bin->node = static_cast<std::uint8_t>(os::this_node());
    return bin;
  }

  static bool thread_exists(long id) { return os::thread_exists(os::system_call(SYS_getpid), id); }

  // ThreadSanitizer cannot see that tgkill() orders the reuse after the thread's end.
  Bin* take_all_retired() {
    os::lock_guard guard(lock_);
    return TARN_TSAN ? nullptr : std::exchange(retired_bins_, nullptr);
  }
  // A retired bin for reuse, if its thread has ended for certain; else null.
  Bin* take_retired() {
    if (TARN_TSAN) return nullptr;
    Bin* bin = nullptr;
    {
      os::lock_guard guard(lock_);
      bin = pop(retired_bins_);
    }
    if (bin == nullptr || !thread_exists(bin->thread_id)) return bin;
    os::lock_guard guard(lock_);
    push(retired_bins_, bin);
    return nullptr;
  }

  // The calling thread's bin of the instance; null: it has none.
  Bin* find_own(const mine& own, const Core* core) {
    // The lock is needed because another thread that ends an instance takes bins out of the list.
    os::lock_guard guard(lock_);
    Bin* found = nullptr;
    own.for_each([&](Bin* bin) {
      if (bin->core == core) found = bin;
    });
    return found;
  }

  // For the first bin of the thread's list: see empty_own_bins(). finish(bin), which takes it out of the list, is called
  // last under the lock. False: the list is empty.
  template <class Take, class PutBack, class Finish>
  bool empty_first(mine& own, Take take, PutBack put_back, Finish finish) {
    decltype(take(*own.first)) taken{};
    Core* core = nullptr;
    {
      os::lock_guard guard(lock_);
      Bin* const bin = own.first;
      if (bin == nullptr) return false;
      core = bin->core;
      taken = take(*bin);
      core->pins.pin();  // NOLINT(clang-analyzer-core.CallAndMessage): a bin in a list has an instance
      finish(bin);
    }
    put_back(*core, taken);
    unpin(core);
    return true;
  }

  // ---- invariants ----

  void check_locked() const TARN_REQUIRES(lock_) {
    if (os::is_check_due()) validate_locked();
  }

  os::mutex lock_;
  Core* instances_ TARN_GUARDED_BY(lock_) = nullptr;
  thread_lists<Bin> threads_{lock_};
  // Bins of threads that are ending or have ended, and whose destructors may still use them until the thread is gone.
  Bin* retired_bins_ TARN_GUARDED_BY(lock_) = nullptr;
  structure_store cores_ TARN_GUARDED_BY(lock_){metadata, blocks, sizeof(Core), alignof(Core)};
  structure_store bins_ TARN_GUARDED_BY(lock_){metadata, blocks, sizeof(Bin), separation};
  std::size_t linked_ TARN_GUARDED_BY(lock_) = 0;  // bins in lists of instances
};

}  // namespace tarn::engine
