// SPDX-License-Identifier: MIT
// The part of central that gives classes of small objects a depot for each home, and moves spans between the depots
// (docs/design/0026).
#include <algorithm>
#include <new>

#include "os/node.hpp"
#include "slots/central.hpp"

namespace tarn {
namespace {

// A class whose depot has this many bytes in use or in magazines, and was used this often by a thread of another home
// than the last one, gets a depot for each home.
constexpr std::size_t shared_from = 1 * mib;
constexpr unsigned changes_to_share = 8;
// The depots of a class give spare spans to each other if they have more bytes of them than their part of this.
constexpr std::size_t spared_from = 512 * kib;

}  // namespace

std::uint8_t central::enter_home(unsigned node) {
  const auto cost = [this, node](unsigned home) {
    return os::place_cost(users_[home].load(std::memory_order_relaxed), node_of(home), node);
  };
  unsigned best = 0;
  for (unsigned home = 1; home < most_homes; ++home) {
    if (cost(home) < cost(best)) best = home;
  }
  if (users_[best].load(std::memory_order_relaxed) == 0)
    nodes_[best].store(static_cast<std::uint8_t>(node), std::memory_order_relaxed);
  users_[best].fetch_add(1, std::memory_order_relaxed);
  return static_cast<std::uint8_t>(best);
}

void central::walk_depot_locks(const os::lock_walk& walk) {
  for (unsigned i = 0; i < size_classes::all; ++i) {
    const unsigned c = walk.backwards ? size_classes::all - 1 - i : i;
    walk.list(depots_[c].lock, [&] {
      for_each_depot(c, [&walk](slot_depot& d) {
        if (d.home != 0) walk.visit(d.lock);
      });
    });
  }
}

// Requires: d is the depot of home 0.
void central::note_taker(slot_depot& d, unsigned size_class, unsigned home) {
  if (TARN_LIKELY(d.last_taker == home)) return;
  // Threads of several memory nodes share no span from the first one on.
  const bool other_node = os::differ(node_of(d.last_taker), node_of(home));
  d.last_taker = static_cast<std::uint8_t>(home);
  if (!other_node && (d.spans.taken() * class_info(size_class).size < shared_from ||
                      ++d.changes_of_taker != changes_to_share)) {
    return;
  }
  const bool shared = !size_classes::is_grain(size_class) && class_info(size_class).size <= largest_shared;
  is_shared_[size_class].store(shared, std::memory_order_relaxed);
}

slot_depot& central::open_depot(unsigned size_class, unsigned home) {
  slot_depot& first = depots_[size_class];
  void* const memory = metadata_.allocate(sizeof(slot_depot), alignof(slot_depot));
  if (memory == nullptr) return first;
  auto* const made = new (memory) slot_depot(static_cast<std::uint8_t>(home));
  // Under this lock, so that fork finds the same depots before and after it.
  os::lock_guard guard(first.lock, first);
  // A handler of fork that runs while fork holds the locks may allocate: fork would not hold the new depot's.
  if (first.lock.is_held_by_fork()) return first;
  std::atomic<slot_depot*>& place = homes_[home - 1][size_class];
  slot_depot* const other = place.load(std::memory_order_relaxed);
  if (other != nullptr) return *other;
  more_depots_[size_class].fetch_add(1, std::memory_order_relaxed);
  // release: partner of the acquire in depot_for().
  place.store(made, std::memory_order_release);
  return *made;
}

// Moves a span with free objects: a spare one, else one with many free objects. False: there is none.
bool central::move_span(slot_depot& from, slot_depot& to, unsigned size_class, bool partial) {
  const auto may = [&](const span* s) {
    if (slot_spans::is_spare(s)) return true;
    const std::uint32_t idle = from.idle_slots.load(std::memory_order_relaxed);
    if (!partial || (is_used(from) && idle < s->free_objects)) return false;
    from.idle_slots.store(idle - std::min<std::uint32_t>(idle, s->free_objects), std::memory_order_relaxed);
    return true;
  };
  const auto moved = [&](span* s) TARN_NOT_ANALYZED {
    // release: partner of the acquire in class_front::elsewhere().
    s->home.store(to.home, std::memory_order_release);
    for (slot_depot* const d : {&from, &to}) {
      note_spares(*d);
      review(*d, size_class);
    }
  };
  return from.move_span_to(to, may, moved);
}

// Whether the depot can do without a spare span; with `partial`, without a span that has free objects.
bool central::can_spare(const slot_depot& d, const slot_depot& to, unsigned size_class, bool partial) const {
  const std::size_t spare = d.spare_bytes();
  if (!is_used(d)) return spare + d.free_hint.load(std::memory_order_relaxed) + d.full_hint() != 0;
  const std::size_t idle =
      d.idle_slots.load(std::memory_order_relaxed) * std::size_t{class_info(size_class).size};
  const bool has_idle_span = partial && idle >= span_bytes(size_class);
  // Memory near to another memory node's processors is taken only if it was idle, before the resident set grows.
  if (os::differ(node_of(d.home), node_of(to.home))) return has_idle_span;
  return spare > spared_from / depot_count(size_class) || has_idle_span;
}

// Takes a span from another depot of the class. False: none can spare one.
bool central::take_spared(slot_depot& own, unsigned size_class, bool partial) {
  if (TARN_LIKELY(depot_count(size_class) == 1)) return false;
  bool moved = false;
  for_each_depot(size_class, [&](slot_depot& other) {
    if (moved || &other == &own || !can_spare(other, own, size_class, partial)) return;
    if (!is_used(other) && other.full_hint() != 0) flush_magazines(other, size_class, true);
    moved = move_span(other, own, size_class, partial || !is_used(other));
  });
  return moved;
}

}  // namespace tarn
