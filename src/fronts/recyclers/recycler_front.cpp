// SPDX-License-Identifier: MIT
// The recyclers as the engine sees them: their registry and the caretaker, whose lock is taken before the registry's.
#include "background/caretaker.hpp"
#include "base/chain.hpp"
#include "engine/front.hpp"
#include "fronts/recyclers/recycler_registry.hpp"

namespace tarn {
namespace {

using recycler_registry::recyclers;

// Hands the magazines of an ending thread's bin over. A thread that has claimed the bin takes objects only under the
// lock, which is held here, so the owner needs no claim.
std::nullptr_t hand_over(recycler_bin& bin) {
  recycler_magazine* all = bin.take_all();
  while (recycler_magazine* const m = chain::pop(all)) bin.core->give_magazine(m);
  return nullptr;
}

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

constinit const engine::front engine::recycler_front{
    .order = engine::front::recyclers,
    .age = [] { recyclers.age(); },
    .has_work = [] { return recyclers.has_work(); },
    .trim = [] { recyclers.for_each([](tarn_recycler& r) { recycler_registry::end_generation(&r, true); }); },
    .thread_adopts = [] { recyclers.thread_adopts(); },
    .thread_ends = [] { recyclers.thread_ends(hand_over, [](recycler_core&, std::nullptr_t) {}); },
    .walk_locks = [](const os::lock_walk& w) { w.all(locks); },
    .after_fork_in_child = after_fork_in_child,
    .metrics = &recycler_registry::metrics,
    .run_due = recycler_registry::end_due_generations,
    .pressed = caretaker::notice_pressure};

}  // namespace tarn
