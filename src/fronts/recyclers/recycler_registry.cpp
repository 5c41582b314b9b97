// SPDX-License-Identifier: MIT
#include "fronts/recyclers/recycler_registry.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "background/caretaker.hpp"
#include "background/pressure.hpp"
#include "base/chain.hpp"
#include "engine/front.hpp"
#include "os/clock.hpp"
#include "os/process_fence.hpp"

extern "C" {
constinit thread_local tarn_recycler_bins tarn_recycler_local_bins{nullptr, 0};
}

namespace tarn {
namespace recycler_registry {

constinit engine::front_registry<tarn_recycler, recycler_bin> recyclers{os::lock_rank::recyclers};

namespace {

// How often bins are claimed in one call; a bin whose owner is inside each time is left for the next call.
constexpr int claim_tries = 3;

std::uint32_t claims = 0;  // guarded by the registry's lock; the last claim's number

// ---- access to other threads' bins ----

// Claims the recycler's bins and calls visit(bin) for each whose owner is outside; the owner stays outside meanwhile.
// Returns the number of bins not visited because their owners were inside. `for_good`: tries until all bins are
// visited, and leaves them claimed. The lock is not held during the system call; a bin that is claimed again, or
// unlinked by the end of its thread, meanwhile is not visited.
template <class Visit>
std::size_t with_claimed(tarn_recycler* recycler, bool for_good, Visit visit) {
  std::size_t missed = 0;
  bool owners_go_on = false;
  for (int tries = 0; for_good || tries < claim_tries; ++tries) {
    // sched_yield() would not let an owner of lower priority run.
    if (owners_go_on) os::sleep_ms(1);
    std::uint32_t claim = 0;
    {
      os::lock_guard guard(recyclers.lock());
      if (recycler->bins == nullptr) return 0;
      claim = ++claims != 0 ? claims : ++claims;
      for (recycler_bin* b = recycler->bins; b != nullptr; b = b->next) {
        b->claimed.store(claim, std::memory_order_relaxed);
      }
    }
    // Partner: the signal fence in enter(). If the system has no such fence, is_entered() proves nothing, and no bin is
    // visited; except for_good, as close() requires that no other thread is inside.
    const bool known = os::process_fence() || for_good;
    missed = 0;
    os::lock_guard guard(recyclers.lock());
    for (recycler_bin* b = recycler->bins; b != nullptr;) {
      recycler_bin* const next = b->next;
      if (b->claimed.load(std::memory_order_relaxed) == claim) {
        if (known && !b->is_entered()) {
          visit(b);
          // release, here and below: partner of the acquire in enter().
          if (!for_good) b->claimed.store(0, std::memory_order_release);
        } else {
          ++missed;
          b->claimed.store(0, std::memory_order_release);
        }
      }
      b = next;
    }
    if (missed == 0 || !known) break;
    owners_go_on = true;
  }
  return missed;
}

}  // namespace

tarn_recycler* create(const tarn_recycler_options& request) {
  tarn_recycler* const recycler = recyclers.create(engine::recycler_front, request);
  if (recycler == nullptr) errno = ENOMEM;
  return recycler;
}

void close(tarn_recycler* recycler) {
  recycler->closed.store(true, std::memory_order_relaxed);
  recyclers.begin_ending(recycler);
  recycler_magazine* all = nullptr;
  // The bins stay, claimed, while handles may still come to them.
  with_claimed(recycler, true, [&all](recycler_bin* bin) { chain::prepend(all, bin->take_all()); });
  // A thread that was about to end may have pinned the recycler meanwhile, as it emptied its bin.
  recyclers.begin_ending(recycler);
  chain::prepend(all, recycler->rotate_generations(nullptr));
  chain::prepend(all, recycler->rotate_generations(nullptr));
  recycler->destroy_chain(all);
}

void free(tarn_recycler* recycler) {
  recyclers.detach_bins(recycler, [](const recycler_bin&) {});
  recyclers.free(recycler, [] {});
}

recycler_bin* bin_of(tarn_recycler* recycler) {
  return recycler->closed.load(std::memory_order_relaxed) ? nullptr : recyclers.bin_of(recycler, true);
}

recycler_magazine* steal(tarn_recycler* recycler) {
  os::lock_guard guard(recyclers.lock());
  for (recycler_bin* b = recycler->bins; b != nullptr; b = b->next) {
    if (recycler_magazine* const m = b->spare.take()) return m;
  }
  return nullptr;
}

std::size_t end_generation(tarn_recycler* recycler, bool all) {
  // Cleared first: an object that becomes idle from here on either sets it again, or is found below.
  recycler->watched.store(false, std::memory_order_relaxed);
  recycler_magazine* gathered = nullptr;
  const std::size_t missed = with_claimed(
      recycler, false, [&gathered](recycler_bin* bin) { chain::prepend(gathered, bin->take_all()); });
  {
    os::lock_guard guard(recyclers.lock());
    recycler->generation_began_ms = os::now_ms();
    // Spare magazines of bins that could not be claimed need no claim.
    for (recycler_bin* b = recycler->bins; missed != 0 && b != nullptr; b = b->next) {
      if (recycler_magazine* const m = b->spare.take()) chain::push(gathered, m);
    }
  }
  recycler_magazine* ended = recycler->rotate_generations(gathered);
  if (all) chain::prepend(ended, recycler->rotate_generations(nullptr));
  if (missed != 0 || !recycler->is_empty()) recycler->watched.store(true, std::memory_order_relaxed);
  return recycler->destroy_chain(ended);
}

std::int64_t end_due_generations(std::int64_t now_ms, bool all) {
  // Memory pressure, which ends all generations, is looked for at least this often.
  constexpr std::int64_t most_ms = pressure::interval_ms;
  std::int64_t next = -1;
  recyclers.for_each([&](tarn_recycler& r) {
    if (!r.watched.load(std::memory_order_relaxed)) return;
    const std::int64_t cycle = r.cycle_ms() != 0 ? r.cycle_ms() : std::numeric_limits<std::int64_t>::max();
    std::int64_t since = 0;
    {
      os::lock_guard guard(recyclers.lock());
      // It may have begun since the caller read the clock.
      since = std::max<std::int64_t>(now_ms - r.generation_began_ms, 0);
    }
    if (all || since >= cycle) {
      end_generation(&r, all);
      since = 0;
      if (!r.watched.load(std::memory_order_relaxed)) return;
    }
    const std::int64_t left = std::min(cycle - since, most_ms);
    next = next < 0 ? left : std::min(next, left);
  });
  return next;
}

void get_figures(tarn_recycler* recycler, tarn_recycler_stats& out) {
  recycler->get_figures(out);
  with_claimed(recycler, false, [&out](recycler_bin* bin) { bin->add_to(out); });
  // Objects that moved meanwhile may be counted twice; there are never more than are paid for.
  out.objects = std::min<std::uint64_t>(out.objects, recycler->budget().paid_objects());
  out.bytes = std::min<std::uint64_t>(out.bytes, recycler->budget().paid_bytes());
  os::lock_guard guard(recyclers.lock());
  for (const recycler_bin* b = recycler->bins; b != nullptr; b = b->next) {
    out.hits += b->hits();
  }
  out.gets = out.hits + out.victims + out.misses;
}

// ---- as the engine sees them ----

namespace {

// Hands the magazines of an ending thread's bin over. A thread that has claimed the bin takes objects only under the
// lock, which is held here, so the owner needs no claim.
std::nullptr_t hand_over(recycler_bin& bin) {
  recycler_magazine* all = bin.take_all();
  while (recycler_magazine* const m = chain::pop(all)) bin.core->give_magazine(m);
  return nullptr;
}

// The caretaker's lock is taken before the registry's.
constexpr os::lock_walk::part locks[] = {
    caretaker::walk_locks,
    [](const os::lock_walk& w) {
      recyclers.walk_locks(w, [&w](tarn_recycler& recycler) { w.visit(recycler.lock()); });
    },
};

// The objects in other threads' bins are lost to the child.
void after_fork_in_child() TARN_NOT_ANALYZED {  // fork holds the lock
  recyclers.after_fork_in_child([](tarn_recycler&) -> recycler_bin* { return nullptr; });
  recyclers.for_each_locked([](tarn_recycler& recycler) {
    recycler_payment paid;
    for (const recycler_bin* b = recycler.bins; b != nullptr; b = b->next) b->add_to(paid);
    recycler.restart_budget(paid);
    // Most children exec another program at once, so no thread is started. The next object kept by the slow path sets
    // this again.
    recycler.watched.store(false, std::memory_order_relaxed);
  });
  caretaker::after_fork_in_child();
}

}  // namespace
}  // namespace recycler_registry

constinit const engine::front engine::recycler_front{
    .order = engine::front::recyclers,
    .age = [] { recycler_registry::recyclers.age(); },
    .has_work = [] { return recycler_registry::recyclers.has_work(); },
    .trim =
        [] {
          recycler_registry::recyclers.for_each(
              [](tarn_recycler& r) { recycler_registry::end_generation(&r, true); });
        },
    .thread_adopts = [] { recycler_registry::recyclers.thread_adopts(); },
    .thread_ends =
        [] {
          recycler_registry::recyclers.thread_ends(recycler_registry::hand_over,
                                                   [](recycler_core&, std::nullptr_t) {});
        },
    .walk_locks = [](const os::lock_walk& w) { w.all(recycler_registry::locks); },
    .after_fork_in_child = recycler_registry::after_fork_in_child,
    .metrics = &recycler_registry::metrics,
    .run_due = recycler_registry::end_due_generations,
    .pressed = caretaker::notice_pressure};

}  // namespace tarn
