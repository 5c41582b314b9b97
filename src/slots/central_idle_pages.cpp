// SPDX-License-Identifier: MIT
// The part of central that gives back pages of spans in use: whole system pages of free objects between live ones
// (docs/design/0038).
//
// When a program has freed most objects of a class in random order, a few live ones keep the spans, and many pages of
// them hold nothing. Objects cannot move, but the pages can go: they read as zero when they are used again.
//
// A dropped page holds no marks (free_mark.hpp), by which free() knows a free object. So the span is unlisted: its pages
// lead to it in the page map, but have no class, and free() takes the way of blocks that it does not know. There the bits
// of the span tell, under the depot's lock, whether the object is free. When objects are taken from the span, it is listed
// again, and all its free objects get their mark.
//
// Thread safety: while the system is called, without a lock, the free objects of the span are taken, as those in a
// magazine are, so that no thread gets them, and the span stays, unlisted. One span at a time: what this thread holds while
// another thread forks is lost to the child. A thread that has read the page map before a span was unlisted or listed does
// no harm: both ways of free() are right for a live object of a listed span, and of an unlisted one.
// Invariant: a span is unlisted exactly if its free_when_looked is not 0; every free object of a listed span has its mark,
// unless it has never been used (span::first_unused, central::validate()).
#include <algorithm>
#include <bit>

#include "os/memory.hpp"
#include "os/own_threads/thread.hpp"
#include "os/report.hpp"
#include "slots/central.hpp"
#include "slots/free_mark.hpp"

namespace tarn {
namespace {

// Of each occupancy list, spans looked at in vain before the list is left alone for this time.
constexpr std::size_t most_sparse_looked_at = 64;
// Spans of which the system kept the pages before the others wait: a program may have locked some pages, or all.
constexpr unsigned most_refused = 8;
// Fuller spans are used before long, and hardly any of their pages are free from end to end.
constexpr unsigned least_free_eighths = 4;
constexpr std::size_t most_words = objects::words(class_info(1).objects);
// free_when_looked of a span whose free objects are taken at this moment: more than any span has.
constexpr std::uint16_t held_now = 0xffff;
static_assert(class_info(1).objects < held_now);

}  // namespace

// The free objects of a span, taken.
struct central::idle_objects : held_slots {
  idle_objects() { bits = room; }

  std::uintptr_t first = 0;  // of its first object
  std::size_t backed = 0;    // those behind have never been used, and no page was prepared for them
  std::uint64_t room[most_words];

  // Calls visit(range) for each run of whole system pages in these objects, or before the first object of the span.
  template <class Visit>
  void for_each_run(std::size_t size, Visit visit) const {
    objects::for_each_page_run(bits, backed, of->start, first, size, visit);
  }
};

// Takes all free objects of a span some pages of which they fill, and which has more of them than at the last look, and
// unlists the span. False: none found.
bool central::take_idle_objects(slot_depot& d, std::size_t size, idle_objects& out) {
  const bool may_back_unused = heap_.may_back_unused();
  os::lock_guard guard(d.lock, d);
  const bool found =
      nullptr != d.spans.find_sparse(least_free_eighths, most_sparse_looked_at, [&](span* each) {
        if (each->free_objects <= each->free_when_looked) return false;
        out.of = each;
        out.backed = may_back_unused ? each->capacity : each->first_unused;
        out.first = objects::first_of(each);
        out.copy(each);
        bool has_pages = false;
        out.for_each_run(size, [&](const os::address_range&) { has_pages = true; });
        return has_pages;
      });
  if (!found) return false;
  out.of->free_when_looked = held_now;
  map_.map_pages(out.of);
  d.hold(out);
  return true;
}

// Puts the objects back, one of which the program may have freed again meanwhile: then the process ends. `dropped`: the
// pages have been, so the span stays unlisted. False: another thread has divided the span into grains.
bool central::return_idle_objects(unsigned size_class, const idle_objects& held, bool dropped) {
  span* const s = held.of;
  std::size_t twice = held.capacity;
  for (bool done = false; !done;) {
    // acquire: partner of the release where a span gets another depot.
    slot_depot& d = depot(size_class, s->home.load(std::memory_order_acquire));
    os::lock_guard guard(d.lock, d);
    if (s->home.load(std::memory_order_acquire) != d.home) continue;
    if (s->size_class != size_class) return false;
    twice = d.put_held(held);
    if (note_spares(d)) spare_news_.store(true, std::memory_order_relaxed);
    if (TARN_UNLIKELY(!dropped)) {
      list_again(s);
      d.spans.put_last(s);
    }
    done = true;
  }
  if (TARN_UNLIKELY(twice != held.capacity))
    os::fatal("double free, detected when a page of the block went back to the system",
              objects::at(s, twice));
  return true;
}

std::size_t central::purge_idle_pages_of(slot_depot& d, unsigned size_class, std::size_t most,
                                         bool can_wait) {
  const std::size_t size = class_info(size_class).size;
  std::size_t purged = 0;
  idle_objects held;
  unsigned times_refused = 0;
  for (std::size_t seen = 0;
       seen < most && times_refused < most_refused && !(can_wait && os::background_thread_must_end());) {
    if (!take_idle_objects(d, size, held)) break;
    bool dropped = false;
    bool refused = false;
    held.for_each_run(size, [&](const os::address_range& run) {
      if (refused) return;
      refused = !heap_.purge_within(held.of, run.start, run.bytes());
      if (refused) return;
      dropped = true;
      purged += run.bytes();
    });
    seen += held.count() * size;
    if (refused) ++times_refused;
    if (return_idle_objects(size_class, held, dropped)) continue;
    for (std::size_t i = 0; i < held.capacity; ++i) {
      if (!held.has(i)) continue;
      void* object = reinterpret_cast<void*>(held.first + i * size);
      free_mark::set(object);
      flush_draining(size_class, put_back_all(size_class, &object, 1, false));
    }
  }
  wake_decay_if_spare();
  return purged;
}

// Under the lock of its depot. Not while its free objects are taken: what is free in it then was freed meanwhile, and has
// its mark.
void central::list_again(span* s) {
  if (s->free_when_looked == held_now) return;
  for (std::size_t i = 0; i < s->first_unused; ++i) {
    if (objects::is_free(s, i)) free_mark::set(objects::at(s, i));
  }
  s->free_when_looked = 0;
  map_.set_objects(s, class_info(s->size_class).size);
}

central::unlisted central::look_up_unlisted(const void* object) {
  const std::uintptr_t address = address_of(object);
  for (;;) {
    const page_map::entry page = map_.find(address);
    if (page.size_class() != 0) return {0, nullptr, true};
    const span* const s = page.owner();
    if (s == nullptr || !s->contains(address) || s->state.load(std::memory_order_relaxed) != span_state::cut)
      return {};
    const unsigned size_class = TARN_PLAIN_LOAD(s->size_class);
    // acquire: partner of the release where a span gets another depot.
    const unsigned home = s->home.load(std::memory_order_acquire);
    if (size_class == 0 || home >= most_homes) return {};
    slot_depot& d = depot(size_class, home);
    os::lock_guard guard(d.lock, d);
    // A span is listed, divided and moved under this lock; the next look then finds its new class or depot.
    if (s->home.load(std::memory_order_acquire) != d.home || s->size_class != size_class ||
        map_.class_of(address) != 0) {
      continue;
    }
    // Without objects in use it is being made or destroyed.
    if (!s->contains(address) || s->free_when_looked == 0) return {};
    const auto& info = class_info(size_class);
    const std::uintptr_t first = objects::first_of(s);
    if (address < first) return {size_class, "invalid free of a pointer that is not a block", false};
    if (!is_multiple(address - first, info.reciprocal))
      return {size_class, "invalid free of a pointer into a block", false};
    const bool is_free = objects::is_free(s, objects::index_of(s, address)) || free_mark::is_set(object);
    return {size_class, is_free ? "double free" : nullptr, false};
  }
}

bool central::unused_are_free(const span& s) {
  if (s.free_when_looked == held_now) return s.first_unused <= s.capacity;
  for (std::size_t i = s.first_unused; i < s.capacity; ++i) {
    if (!objects::is_free(&s, i)) return false;
  }
  return s.first_unused <= s.capacity;
}

bool central::objects_are_marked(const span& s) {
  if (s.free_when_looked != 0) return false;
  for (std::size_t i = 0; !hardened_build && i < s.first_unused; ++i) {
    if (objects::is_free(&s, i) && !free_mark::is_set(objects::at(&s, i))) return false;
  }
  return true;
}

std::size_t central::purge_idle_pages(bool all) {
  // There a free object is zero from end to end and has no mark; its canary tells that it is live.
  if constexpr (hardened_build) return 0;
  std::size_t purged = 0;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    for_each_depot(c, [&](slot_depot& d) {
      // What was free all through the last period; requests are served from the fullest spans, so these are the others.
      const std::size_t size = class_info(c).size;
      std::size_t most = d.idle_slots.load(std::memory_order_relaxed) * size;
      if (all) {
        // Not until none is found: another thread that takes and frees objects makes more of them all the time.
        os::lock_guard guard(d.lock, d);
        most = d.spans.free_slots() * size;
      } else if (!d.draining() || most < slot_depot::drain_from) {
        return;
      }
      purged += purge_idle_pages_of(d, c, most, !all);
    });
  }
  return purged;
}

}  // namespace tarn
