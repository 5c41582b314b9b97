// SPDX-License-Identifier: MIT
// The part of central that keeps free objects for a while, in full magazines and spare spans, and gives them back.
//
// The limits of both follow use (base/adaptive_limit.hpp). Full magazines beyond the fixed limit are for small objects
// that go back to their spans and are taken out again in large numbers; before the resident set grows, their objects
// return to their spans.
#include <algorithm>

#include "os/own_threads/thread.hpp"
#include "slots/central.hpp"

namespace tarn {
namespace {

// The most bytes of one class that may wait in full magazines for hand-over.
constexpr std::size_t handover_limit = 64 * kib;
// Full magazines beyond the limit may themselves take this many bytes, and at most this fraction of the bytes that are
// in use or in magazines.
constexpr std::size_t most_extra_magazines = 1 * mib;
constexpr std::size_t extra_magazines_divisor = 8;
// Of smaller objects that fraction of magazines would hold a part only; then the class drains all the same.
constexpr std::size_t least_waiting = 64;
// A depot to which fewer bytes come back and are taken again keeps none: it would gain little, and its spans would be
// less full.
constexpr std::size_t extra_magazines_from = 1 * mib;

std::size_t most_full_magazines(const slot_depot& d, unsigned size_class, std::size_t depots) {
  const auto& info = class_info(size_class);
  const std::size_t limit = handover_limit / depots / (std::size_t{info.size} * info.magazine);
  return std::max<std::size_t>(limit, 2) + d.full_limit.extra() / info.magazine;
}

// Of a full magazine of the class, without its objects.
constexpr std::size_t bytes_of_magazine(unsigned size_class) {
  return magazine_store::capacities[magazine_store::index_for(class_info(size_class).magazine)] *
         sizeof(void*);
}

}  // namespace

// ---- full magazines ----

// Objects have been taken out of spans: more may wait in full magazines if they were put back in this period.
void central::note_taken(slot_depot& d, unsigned size_class, std::size_t objects) {
  const std::size_t size = class_info(size_class).size;
  if (size < least_waiting || size > largest_shared) return;
  const std::size_t bytes = std::min(d.spans.taken() * size / extra_magazines_divisor, most_extra_magazines);
  const std::size_t most = bytes * class_info(size_class).magazine / bytes_of_magazine(size_class);
  const bool more =
      d.full_limit.note_made(static_cast<std::uint32_t>(objects), static_cast<std::uint32_t>(most),
                             static_cast<std::uint32_t>(extra_magazines_from / size));
  if (more) has_extra_full_.store(true, std::memory_order_relaxed);
}

magazine* central::take_full(unsigned size_class, unsigned home) {
  slot_depot& d = depot_to_refill(size_class, home);
  // Read without the lock: a stale value only costs a refill.
  if (d.full_hint() == 0) return nullptr;
  os::lock_guard guard(d.lock, d);
  if (d.home == 0) note_taker(d, size_class, home);
  return d.pop_full();
}

bool central::give_full(unsigned size_class, magazine* m, unsigned home, magazine** empty) {
  if (TARN_UNLIKELY(depot_count(size_class) != 1)) {
    // A few objects stand for all. (A span that was divided into grains has home 0.)
    const unsigned of_most = home_of(m->bottom()[0]);
    const bool agree =
        of_most == home_of(m->bottom()[m->count / 2]) && of_most == home_of(m->bottom()[m->count - 1]);
    if (agree && of_most < most_homes) home = of_most;
  }
  slot_depot& d = depot(size_class, home);
  if (!d.give_full(m, most_full_magazines(d, size_class, depot_count(size_class)), empty)) return false;
  // No span becomes spare while all objects wait here, so nothing else may wake decay.
  const std::size_t bytes = class_info(size_class).magazine * class_info(size_class).size;
  if (d.full_hint() == (spare_watch_bytes + bytes - 1) / bytes)
    spare_news_.store(true, std::memory_order_relaxed);
  return true;
}

// A depot has at most as many magazines, full and empty ones, as it may have full ones.
bool central::leave_empty(unsigned size_class, magazine* m, unsigned home) {
  slot_depot& d = depot(size_class, home);
  // A shorter one would not do for every giver.
  if (m->capacity < class_info(size_class).magazine) return false;
  if (d.full_hint() + d.empty_hint() >= most_full_magazines(d, size_class, depot_count(size_class)))
    return false;
  d.leave_empty(m);
  return true;
}

// ---- giving back ----

// One span at a time: a span that this thread holds while another thread forks is lost to the child.
std::size_t central::release_spares_of(slot_depot& d, std::uint32_t keep, bool can_wait, std::size_t most) {
  std::size_t released = 0;
  while (released < most && !(can_wait && os::background_thread_must_end())) {
    span* s = nullptr;
    {
      os::lock_guard guard(d.lock, d);
      if (d.spare_count() > keep) s = d.spans.take_spare();
      if (s == nullptr) return released;
      s->state.store(span_state::purging, std::memory_order_relaxed);
      s->owner.store(nullptr, std::memory_order_relaxed);
      note_spares(d);
    }
    released += s->bytes();
    destroy_span(s);
  }
  return released;
}

void central::settle_slow(unsigned size_class) {
  has_surplus_[size_class].store(false, std::memory_order_relaxed);
  if (size_classes::is_grain(size_class)) {
    release_spares_of(depots_[size_class], 0, false);
    return;
  }
  for_each_depot(size_class, [&](slot_depot& d) {
    const std::uint32_t most = most_spares(d, size_class);
    if (d.spare_count() <= most) return;
    const std::size_t released = release_spares_of(d, most, false);
    d.spare_limit.note_given_up(static_cast<std::uint32_t>(released / span_bytes(size_class)));
  });
}

std::size_t central::release_spares(bool all, std::size_t most) {
  std::size_t released = 0;
  for (unsigned c = 1; c < size_classes::all && spare_bytes() != 0 && released < most; ++c) {
    for_each_depot(c, [&](slot_depot& d) {
      if (all) {
        const bool has_any = d.spare_count() != 0;
        if (has_any && released < most) released += release_spares_of(d, 0, false, most - released);
        return;
      }
      std::uint32_t used = 0;
      {
        os::lock_guard guard(d.lock, d);
        const std::uint32_t idle = d.spans.end_period_of_spares();
        used = d.spare_count() - idle;
        d.spare_limit.end_period(idle);
      }
      released += release_spares_of(d, used, true);
    });
  }
  return released;
}

void central::flush_magazines(slot_depot& d, unsigned size_class, bool all) {
  flush_draining(size_class, put_back_magazines(d, size_class, all, false));
}

// As put_back_all(), for the objects of full magazines. Takes one magazine at a time: a forked child loses what another
// thread holds at the fork.
std::uint32_t central::put_back_magazines(slot_depot& d, unsigned size_class, bool all, bool given_up) {
  std::uint32_t draining = 0;
  std::uint32_t left = 0;
  d.end_idle_empties(all, [this](magazine* m) { magazines_.deallocate(m); });
  {
    os::lock_guard guard(d.lock, d);
    const std::uint32_t count = d.full.count();
    left = d.full.end_period(all);
    // If nobody needed any, there is no evidence left for a higher limit.
    d.full_limit.end_period(left != count || count == 0 ? left * class_info(size_class).magazine
                                                        : d.full_limit.extra());
    if (!all) d.end_period();
  }
  for (; left != 0 && (all || !os::background_thread_must_end()); --left) {
    magazine* m = nullptr;
    {
      os::lock_guard guard(d.lock, d);
      m = d.full.pop();
    }
    if (m == nullptr) break;
    draining |= put_back_all(size_class, m->bottom(), m->count, given_up);
    magazines_.deallocate(m);
  }
  return draining;
}

void central::flush_idle_magazines(bool all) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    for_each_depot(c, [&](slot_depot& d) {
      if (!all || d.full_hint() != 0 || d.empty_hint() != 0) flush_magazines(d, c, all);
    });
  }
}

// Before the resident set grows by `bytes`: puts the objects of classes that keep more full magazines than their limit
// back into their spans, until so many bytes of spans are spare; what these classes gave up before no longer counts.
// False: there are none.
bool central::flush_extra_magazines(std::size_t bytes) {
  if (!has_extra_full_.load(std::memory_order_relaxed) ||
      !has_extra_full_.exchange(false, std::memory_order_relaxed)) {
    return false;
  }
  for (unsigned c = 1; c < size_classes::count; ++c) {
    for_each_depot(c, [&](slot_depot& d) {
      if (d.full_limit.extra() == 0) return;
      flush_magazines(d, c, true);
      d.full_limit.clear();
    });
    if (spare_bytes() >= bytes) {
      has_extra_full_.store(true, std::memory_order_relaxed);
      break;
    }
  }
  wake_decay_if_spare();
  return true;
}

std::size_t central::handover_bytes() {
  std::size_t bytes = 0;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    for_each_depot(c, [&](slot_depot& d) {
      if (d.full_hint() != 0) bytes += d.waiting() * class_info(c).size;
    });
  }
  return bytes;
}

}  // namespace tarn
