// SPDX-License-Identifier: MIT
#include "slots/class_depots.hpp"

#include <algorithm>
#include <new>

#include "os/invariant.hpp"
#include "os/node.hpp"
#include "os/report.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"
#include "slots/free_mark.hpp"
#include "slots/objects.hpp"

namespace tarn {
namespace {

// A class whose depot has this many bytes in use or in magazines, and was used this often by a thread of another home
// than the last one, gets a depot for each home.
constexpr std::size_t shared_from = 1 * mib;
constexpr unsigned changes_to_share = 8;
// The depots of a class give spare spans to each other if they have more bytes of them than their part of this.
constexpr std::size_t spared_from = 512 * kib;
// The depots of a class keep so many bytes of spare spans.
constexpr std::size_t spare_limit = 128 * kib;
// Stands for the span of an object that is in no span of its class: no depot has its home.
constinit span no_span{home_counts::none};

[[noreturn]] void report_freed_twice(const void* object) {
  os::fatal("double free, detected when the block returned to its span", object);
}
[[noreturn]] void report_no_block_of_grains(const void* object) {
  os::fatal("double free, or invalid free of a pointer into a block", object);
}

}  // namespace

// ---- the depots ----

void class_depots::after_fork_in_child(int parent) {
  parent_.store(parent, std::memory_order_relaxed);
  for (unsigned c = 1; c < size_classes::all; ++c) {
    for_each(c, [&](slot_depot& d) TARN_NOT_ANALYZED {
      d.inherited = parent != 0 ? static_cast<std::uint32_t>(d.spans.free_slots()) : 0;
      if (d.inherited == 0) {
        d.spans.use_all();
        return;
      }
      d.spans.set_aside();
      review(d, c);
    });
  }
}

void class_depots::look_for_parent() {
  const int parent = parent_.load(std::memory_order_relaxed);
  if (TARN_LIKELY(parent == 0) || os::is_filtered() || os::system_call(SYS_getppid) == parent) return;
  use_inherited();
}

void class_depots::use_inherited() {
  if (TARN_LIKELY(parent_.exchange(0, std::memory_order_relaxed) == 0)) return;
  for (unsigned c = 1; c < size_classes::all; ++c) {
    for_each(c, [](slot_depot& d) {
      os::lock_guard guard(d.lock, d);
      d.inherited = 0;
      d.spans.use_all();
    });
  }
}

void class_depots::walk_locks(const os::lock_walk& walk) {
  for (unsigned i = 0; i < size_classes::all; ++i) {
    const unsigned c = walk.backwards ? size_classes::all - 1 - i : i;
    walk.list(first_[c].lock, [&] {
      for_each(c, [&walk](slot_depot& d) {
        if (d.home != 0) walk.visit(d.lock);
      });
    });
  }
}

void class_depots::note_taker(slot_depot& d, unsigned size_class, unsigned home) {
  if (TARN_LIKELY(d.last_taker == home) || d.home != 0) return;
  // Threads of several memory nodes share no span from the first one on.
  const bool other_node = os::differ(homes_.node_of(d.last_taker), homes_.node_of(home));
  d.last_taker = static_cast<std::uint8_t>(home);
  if (!other_node && (d.spans.taken() * class_info(size_class).size < shared_from ||
                      ++d.changes_of_taker != changes_to_share)) {
    return;
  }
  const bool shared = !size_classes::is_grain(size_class) && class_info(size_class).size <= largest_shared;
  is_shared_[size_class].store(shared, std::memory_order_relaxed);
}

slot_depot& class_depots::open(unsigned size_class, unsigned home) {
  slot_depot& first = first_[size_class];
  void* const memory = metadata_.allocate(sizeof(slot_depot), alignof(slot_depot));
  if (memory == nullptr) return first;
  auto* const made = new (memory) slot_depot(static_cast<std::uint8_t>(home));
  // Under this lock, so that fork finds the same depots before and after it.
  os::lock_guard guard(first.lock, first);
  // A handler of fork that runs while fork holds the locks may allocate: fork would not hold the new depot's.
  if (first.lock.is_held_by_fork()) return first;
  std::atomic<slot_depot*>& entry = others_[home - 1][size_class];
  slot_depot* const other = entry.load(std::memory_order_relaxed);
  if (other != nullptr) return *other;
  more_[size_class].fetch_add(1, std::memory_order_relaxed);
  // release: partner of the acquire in at().
  entry.store(made, std::memory_order_release);
  return *made;
}

// ---- spans ----

bool class_depots::review(slot_depot& d, unsigned size_class) {
  const bool was_sparse = d.sparse;
  const bool drains = d.review(class_info(size_class).size, count(size_class) != 1);
  // The words are written and read by all threads: touched only if the bit changes.
  if (TARN_UNLIKELY(was_sparse != d.sparse) && size_classes::may_be_divided(size_class)) {
    sparse_[d.home][size_class / 64].fetch_xor(std::uint64_t{1} << (size_class % 64),
                                               std::memory_order_relaxed);
  }
  return drains;
}

bool class_depots::note_spares(slot_depot& d) {
  const std::size_t change = d.take_spare_change();
  if (TARN_UNLIKELY(change != 0)) spare_bytes_.fetch_add(change, std::memory_order_relaxed);
  return static_cast<std::ptrdiff_t>(change) > 0;
}

std::uint32_t class_depots::most_spares(const slot_depot& d, unsigned size_class) const {
  if (size_classes::is_grain(size_class)) return 0;
  const std::size_t bytes = span_bytes(size_class);
  const std::size_t limit = spare_limit / count(size_class);
  return static_cast<std::uint32_t>(limit > bytes ? limit / bytes : 1) + d.spare_limit.extra();
}

// The span to take objects from. Spare spans are used in the order of their addresses as far as they are neighbours: a
// program that frees a large container in random order and fills it again then walks through memory, not back and forth.
span* class_depots::best_span(const slot_depot& d) const {
  span* const best = d.spans.best();
  if (best == nullptr || !slot_spans::is_spare(best)) return best;
  span* const behind = map_.visible_span_of(d.spare_end);
  // Only under this depot's lock does a span become its own or stop being so, hence `list` may be read.
  const bool is_spare = behind != nullptr && behind->owner.load(std::memory_order_relaxed) == &d &&
                        slot_spans::is_spare(behind) && behind->start == d.spare_end;
  return is_spare ? behind : best;
}

// Whether the depot can do without a spare span; with `partial`, without a span that has free objects.
bool class_depots::can_spare(const slot_depot& d, const slot_depot& to, unsigned size_class,
                             bool partial) const {
  const std::size_t spare = d.spare_bytes();
  if (!homes_.is_used(d.home))
    return spare + d.free_hint.load(std::memory_order_relaxed) + d.full_hint() != 0;
  const std::size_t idle =
      d.idle_slots.load(std::memory_order_relaxed) * std::size_t{class_info(size_class).size};
  const bool has_idle_span = partial && idle >= span_bytes(size_class);
  // Memory near to another memory node's processors is taken only if it was idle, before the resident set grows.
  if (os::differ(homes_.node_of(d.home), homes_.node_of(to.home))) return has_idle_span;
  return spare > spared_from / count(size_class) || has_idle_span;
}

// Moves a span with free objects: a spare one, else one with many free objects. False: there is none.
bool class_depots::move_span(slot_depot& from, slot_depot& to, unsigned size_class, bool partial) {
  const auto may = [&](const span* s) {
    if (slot_spans::is_spare(s)) return true;
    const std::uint32_t idle = from.idle_slots.load(std::memory_order_relaxed);
    if (!partial || (homes_.is_used(from.home) && idle < s->free_objects)) return false;
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

// ---- objects ----

// What malloc's classes do with spans: slot_depot.hpp. Under the lock of the depot.
struct class_depots::class_front {
  span* next(slot_depot& d, bool is_first) const TARN_NOT_ANALYZED {
    span* const s = is_first ? all.best_span(d) : d.spans.best();
    if (is_first && s != nullptr && slot_spans::is_spare(s)) d.spare_end = s->end();
    return s;
  }
  void open(span* s) {
    if (TARN_UNLIKELY(s->free_when_looked != 0)) free_mark::list_again(all.map_, s);
    size = info.size;
    first = s->end() - s->capacity * size;
  }
  [[nodiscard]] void* at(const span* /*s*/, std::size_t i) const {
    return reinterpret_cast<void*>(first + i * size);
  }
  // Marks also the object behind the last one, which a program frees that frees the end of a block instead of its
  // beginning.
  static void taken(span* s, std::size_t last) {
    if (TARN_UNLIKELY(s->first_unused < s->capacity)) free_mark::mark_unused(s, last + 2);
  }

  [[nodiscard]] span* elsewhere(span* s, const void* object) {
    // acquire: partner of the release where a span gets another depot. Only a span of this depot is read further.
    if (TARN_UNLIKELY(s->home.load(std::memory_order_acquire) != home)) return s;
    if (TARN_UNLIKELY(s->size_class != size_class)) return &no_span;
    const std::uintptr_t first_object = TARN_UNLIKELY(is_grain) ? objects::first_of(s) : s->start + lead;
    // Of an address before the first object it is larger than any capacity.
    index = objects::quotient(address_of(object) - first_object, reciprocal);
    return TARN_LIKELY(index < s->capacity) ? nullptr : &no_span;
  }
  // Requires: elsewhere() was called just before, for this object.
  std::size_t set_free(span* s, const void* object) {
    const std::size_t length =
        TARN_UNLIKELY(is_grain) ? objects::untie(s, index) : objects::set_free(s, index);
    // Its bit is set already: freed twice.
    if (TARN_UNLIKELY(length == 0)) {
      freed_twice = object;
    } else if (TARN_UNLIKELY(is_grain)) {
      s->no_run_of = 0;
    }
    return length;
  }

  class_depots& all;
  const std::uint8_t home;
  const unsigned size_class;
  const bool is_grain = size_classes::is_grain(size_class);
  const slot_class& info = class_info(size_class);
  const std::uint64_t reciprocal = info.reciprocal;
  // Before the first object, in spans that are not of grains.
  const std::size_t lead = span_bytes(size_class) - std::size_t{info.objects} * info.size;
  std::size_t index = 0;
  std::size_t size = 0;
  std::uintptr_t first = 0;  // of the span that has been opened
  const void* freed_twice = nullptr;
};

std::size_t class_depots::take(slot_depot& d, unsigned size_class, magazine* m, std::size_t most,
                               unsigned home) {
  class_front front{*this, d.home, size_class};
  os::lock_guard guard(d.lock, d);
  note_taker(d, size_class, home);
  const std::size_t found = d.take(front, m->slots + most, most);
  note_spares(d);
  review(d, size_class);
  return found;
}

std::uint32_t class_depots::put_back(unsigned size_class, void** freed, std::size_t count, bool given_up) {
  // Objects often come back in random order, so their spans are rarely in the processor's cache: prefetch them.
  span* owners[largest_magazine];
  for (std::size_t i = 0; i < count; ++i) {
    owners[i] = map_.span_of(address_of(freed[i]));
    __builtin_prefetch(owners[i], 1);
    __builtin_prefetch(&owners[i]->inline_bits[span::inline_words - 1], 1);
  }
  std::uint32_t draining = 0;
  // Usually all belong to one depot; those of others are left over for the next round.
  while (count != 0) {
    // acquire: as in class_front::elsewhere().
    const unsigned home = owners[0]->home.load(std::memory_order_acquire);
    if (TARN_LIKELY(home < home_counts::most)) {
      slot_depot& d = at(size_class, home);
      if (TARN_LIKELY(d.home == home)) {
        const std::size_t left = put_back(d, size_class, freed, owners, count, draining);
        if (given_up) d.full_limit.note_given_up(static_cast<std::uint32_t>(count - left));
        count = left;
        continue;
      }
    }
    put_back_misplaced(size_class, freed[0]);
    --count;
    freed[0] = freed[count];
    owners[0] = owners[count];
  }
  return draining;
}

// An object from a magazine of the class that lies in a span of another class. Either the span has been divided into
// grains since, or the object was freed twice and its span has been reused: an error.
void class_depots::put_back_misplaced(unsigned size_class, void* freed) {
  const auto grain = static_cast<unsigned>(map_.class_of(address_of(freed)));
  span* owner = map_.span_of(address_of(freed));
  void* object = freed;
  std::uint32_t draining = 0;  // no magazine holds a block of grains as such
  if (grain == size_class || !size_classes::is_grain(grain) ||
      put_back(first_[grain], grain, &object, &owner, 1, draining) != 0) {
    report_freed_twice(freed);
  }
}

// Puts objects back into spans of the depot, which is one of the class. Moves the others to the front of both arrays,
// with no_span for those that lie in spans of other classes; returns their number.
std::size_t class_depots::put_back(slot_depot& d, unsigned size_class, void** freed, span** owners,
                                   std::size_t count, std::uint32_t& draining) {
  class_front front{*this, d.home, size_class};
  std::size_t left = 0;
  {
    os::lock_guard guard(d.lock, d);
    left = d.put(front, freed, owners, count, freed);
    if (note_spares(d)) {
      if (spare_bytes() >= spare_watch_bytes + span_bytes(size_class)) note_spare_news();
      std::atomic<bool>& surplus = has_surplus_[size_class];
      if (d.spare_count() > most_spares(d, size_class) && !surplus.load(std::memory_order_relaxed))
        surplus.store(true, std::memory_order_relaxed);
    }
    if (TARN_UNLIKELY(review(d, size_class))) draining |= 1U << d.home;
  }
  if (TARN_UNLIKELY(front.freed_twice != nullptr)) {
    front.is_grain ? report_no_block_of_grains(front.freed_twice) : report_freed_twice(front.freed_twice);
  }
  d.counters.flushes.fetch_add(1, std::memory_order_relaxed);
  return left;
}

// ---- figures and checks ----

bool class_depots::occupancy_of(const span& s, const void* object, occupancy& out) {
  // Between the two looks at the span it may be divided, or move to another depot.
  constexpr int most_tries = 4;
  for (int tries = 0; tries < most_tries; ++tries) {
    const lookup found = with_depot_of(s, [&](const slot_depot& d, unsigned size_class) TARN_NOT_ANALYZED {
      if (!s.contains(address_of(object))) return lookup::none;
      out.objects = s.capacity;
      out.object_size = class_info(size_class).size;
      out.taken = out.objects - s.free_objects;
      out.bytes = s.bytes();
      out.partial_objects = d.spans.partial_slots();
      out.partial_spans = out.partial_objects / out.objects;
      out.partial_taken = out.partial_objects - d.spans.free_slots();
      out.is_next = best_span(d) == &s;
      return lookup::done;
    });
    if (found != lookup::changed) return found == lookup::done;
  }
  return false;
}

class_depots::class_figures class_depots::figures_of(unsigned size_class) {
  class_figures out{};
  for_each(size_class, [&](slot_depot& d) {
    os::lock_guard guard(d.lock, d);
    out.objects += d.spans.slots();
    out.taken += d.spans.taken();
    if (size_classes::is_grain(size_class)) return;
    const std::size_t per_span = class_info(size_class).objects;
    out.spans += d.spans.slots() / per_span;
    out.with_room += d.spans.partial_slots() / per_span;
  });
  return out;
}

void class_depots::validate() {
  walk_locks({[](os::mutex& m) TARN_NOT_ANALYZED { m.lock(); }});
  std::size_t spare = 0;
  for (unsigned c = 1; c < size_classes::all; ++c) {
    unsigned depots = 0;
    for_each(c, [&](const slot_depot& d) TARN_NOT_ANALYZED {
      ++depots;
      d.validate_locked();
      spare += d.spare_bytes();
      d.spans.for_each([&](const span& s) {
        TARN_INVARIANT("class_depots", this, s.home.load(std::memory_order_relaxed) == d.home);
        TARN_INVARIANT("class_depots", this, s.owner.load(std::memory_order_relaxed) == &d);
        if (size_classes::is_grain(c)) return;
        TARN_INVARIANT("class_depots", this, free_mark::unused_are_free(s));
        TARN_INVARIANT("class_depots", this,
                       free_mark::is_listed(map_, s) == free_mark::all_are_set(map_, s));
      });
      TARN_INVARIANT("class_depots", this,
                     is_sparse(c, d.home) == (size_classes::may_be_divided(c) && d.sparse));
    });
    TARN_INVARIANT("class_depots", this, depots == count(c));
  }
  TARN_INVARIANT("class_depots", this, spare_bytes() == spare);
  walk_locks({[](os::mutex& m) TARN_NOT_ANALYZED { m.unlock(); }, true});
}

}  // namespace tarn
