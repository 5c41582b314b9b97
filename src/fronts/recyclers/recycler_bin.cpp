// SPDX-License-Identifier: MIT
#include "fronts/recyclers/recycler_bin.hpp"

#include <algorithm>
#include <utility>

#include "base/chain.hpp"

namespace tarn {
namespace {

// How many places are paid at once where the budget is ample, so that in a new magazine only one push in `pay_ahead`
// takes the slow path.
constexpr std::ptrdiff_t pay_ahead = 16;

constinit tarn_recycler_entry void_entries[2] = {{nullptr, 0}, {nullptr, 0}};

}  // namespace

tarn_recycler_entry* recycler_bin::void_top() { return void_entries + 1; }

// ---- the recycler ----

// The owner is outside here, as it joins a recycler by itself, or is the only thread of a forked child.
void recycler_bin::join() {
  busy.store(0, std::memory_order_relaxed);
  taken.store(0, std::memory_order_relaxed);
  // close() has left the bin claimed. release: partner of the acquire in enter(), as at the end of any claim.
  claimed.store(0, std::memory_order_release);
}

// The recycler keeps the hits that the bin has counted. The next one's magazines, of another thread perhaps, begin small.
void recycler_bin::leave() {
  core->note_hits(hits());
  taken.store(0, std::memory_order_relaxed);
  most = 0;
}

// ---- get ----

void recycler_bin::load(recycler_magazine* m) {
  loaded = m;
  top = m->top();
}

void* recycler_bin::pop_one() {
  --top;
  taken.store(taken.load(std::memory_order_relaxed) + 2, std::memory_order_relaxed);
  return top->object;
}

void* recycler_bin::get() {
  if (top[-1].object != nullptr) return pop_one();
  recycler_magazine* m = spare.take();
  if (m == nullptr) {
    m = core->take_magazine();
    if (m == nullptr) return nullptr;
    core->note(recycler_core::source::exchanged, m->count);
  }
  return get_from(m);
}

void* recycler_bin::get_from(recycler_magazine* m) {
  // The loaded magazine is empty here.
  if (loaded != nullptr && m->capacity < loaded->capacity) {
    // The longer magazine stays loaded; the objects move into it together with the payments of their places.
    std::swap_ranges(m->begin(), m->top(), loaded->begin());
    top = loaded->begin() + m->count;
    core->discard(m);
    return pop_one();
  }
  if (loaded != nullptr) keep_empty(loaded);
  most = std::max(most, m->capacity);
  load(m);
  return pop_one();
}

// Keeps an empty magazine, with the payments of its places, for the next make_room().
void recycler_bin::keep_empty(recycler_magazine* m) {
  m->count = 0;
  std::swap(m, empty);
  if (m != nullptr) core->leave_empty(m);
}

// ---- give ----

// Refunds the payments of the unused places above top, except those of the place at top, which the caller is to use.
void recycler_bin::refund_unused() {
  if (empty != nullptr) core->discard(std::exchange(empty, nullptr));
  core->discard_empty();
  if (top >= loaded->end()) return;
  recycler_payment unused;
  for (tarn_recycler_entry* e = top + 1; e != loaded->end(); ++e) unused.add(std::exchange(e->paid, 0));
  if (unused.objects != 0) core->budget().refund(unused);
}

// Pays `bytes` for the place at top, and for places above it if the budget is ample. False: the budget has no room.
bool recycler_bin::pay(std::size_t bytes) {
  recycler_budget& budget = core->budget();
  const std::ptrdiff_t places = std::min(pay_ahead, loaded->end() - top);
  if (top->paid == 0 &&
      budget.is_ample(bytes * static_cast<std::size_t>(places), static_cast<std::size_t>(places))) {
    std::size_t all_bytes = 0;
    std::size_t objects = 0;
    for (const tarn_recycler_entry* e = top; e != top + places; ++e) {
      if (e->paid == 0) {
        all_bytes += bytes;
        ++objects;
      }
    }
    if (budget.pay(all_bytes, objects)) {
      for (tarn_recycler_entry* e = top; e != top + places; ++e) {
        if (e->paid == 0) e->paid = bytes;
      }
      return true;
    }
  }
  const std::size_t more = bytes - top->paid;
  const std::size_t objects = top->paid == 0 ? 1 : 0;
  if (!budget.pay(more, objects)) {
    refund_unused();
    if (!budget.pay(more, objects)) return false;
  }
  top->paid = bytes;
  return true;
}

// Loads a magazine with a place at top, by making the full one the spare one. False when there is no memory.
bool recycler_bin::make_room() {
  // Magazines start small: other threads get the objects of a loaded magazine only once it is full.
  std::uint16_t wanted = recycler_magazine::capacities[0];
  for (const std::uint16_t capacity : recycler_magazine::capacities) {
    wanted = capacity;
    if (capacity > most) break;
  }
  const bool first = loaded == nullptr;
  if (first) wanted = std::max(most, recycler_magazine::capacities[0]);
  recycler_magazine* m = nullptr;
  if (empty != nullptr && empty->capacity >= wanted) m = std::exchange(empty, nullptr);
  if (m == nullptr && !first) m = core->take_empty(wanted);
  if (m == nullptr) m = recycler_magazine::make(wanted);
  if (m == nullptr) return false;
  most = m->capacity;
  if (!first) {
    unload();
    // The old spare magazine is handed over to other threads.
    if (recycler_magazine* const full = spare.take()) core->give_magazine(full);
    spare.put(loaded);
  }
  load(m);
  return true;
}

bool recycler_bin::give(void* object, std::size_t bytes) {
  if ((loaded == nullptr || top == loaded->end()) && !make_room()) return false;
  if (top->paid < bytes && !pay(bytes)) return false;
  top->object = object;
  ++top;
  return true;
}

// ---- for others ----

recycler_magazine* recycler_bin::take_all() {
  if (loaded != nullptr) unload();
  recycler_magazine* all = nullptr;
  for (recycler_magazine* const m :
       {std::exchange(empty, nullptr), spare.take(), std::exchange(loaded, nullptr)}) {
    if (m == nullptr) continue;
    if (m->count != 0) {
      chain::push(all, m);
    } else {
      core->discard(m);
    }
  }
  top = void_top();
  return all;
}

void recycler_bin::add_to(tarn_recycler_stats& out) const {
  const auto add = [&out](tarn_recycler_entry* begin, const tarn_recycler_entry* end) {
    for (const tarn_recycler_entry* e = begin; e != end; ++e) {
      ++out.objects;
      out.bytes += e->paid;
    }
  };
  if (loaded != nullptr) add(loaded->begin(), top);
  // The magazine stays meanwhile: the bin's owner is outside, and other threads steal only under the registry's lock,
  // which the caller holds.
  if (recycler_magazine* const m = spare.look()) add(m->begin(), m->top());
}

void recycler_bin::validate() {
  if (loaded == nullptr) {
    TARN_INVARIANT("recycler_bin", this, top == void_top());
  } else {
    TARN_INVARIANT("recycler_bin", this, loaded->begin() <= top && top <= loaded->end());
    unload();
    loaded->validate();
  }
  TARN_INVARIANT("recycler_bin", this, empty == nullptr || empty->count == 0);
  if (empty != nullptr) empty->validate();
  // Taken out while it is checked, so that no other thread takes it.
  recycler_magazine* const full = spare.take();
  TARN_INVARIANT("recycler_bin", this, full == nullptr || full->count != 0);
  if (full != nullptr) full->validate();
  spare.put(full);
}

void recycler_bin::add_to(recycler_payment& sum) const {
  for (recycler_magazine* const m : {loaded, empty, spare.look()}) {
    if (m != nullptr) m->add_to(sum);
  }
}

}  // namespace tarn
