// SPDX-License-Identifier: MIT
#include "slots/central.hpp"

#include <algorithm>
#include <bit>

#include "os/own_threads/thread.hpp"
#include "os/probe.hpp"
#include "pages/zero_pages.hpp"
#include "slots/free_mark.hpp"
#include "slots/hardened_fence.hpp"
#include "slots/hardened_shuffle.hpp"
#include "slots/objects.hpp"

namespace tarn {
namespace {

// Who uses small objects touches every page of their spans; of a longer object whole pages may stay unwritten.
constexpr page_heap::use use_of(unsigned size_class) {
  return size_classes::is_coarse(size_class) ? page_heap::use::filled : page_heap::use::dense;
}
// The most bytes of spare spans that a depot keeps beyond its limit because it uses them.
constexpr std::size_t most_extra = 16 * mib;
// Spare spans are given to the page heap in steps of this many bytes until it has enough.
constexpr std::size_t release_step = 128 * kib;
// Before a span takes fresh memory, this fraction of the bytes in use stays backed, and at least least_kept.
constexpr std::size_t kept_divisor = 32;
constexpr std::size_t least_kept = 2 * mib;

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

constexpr bool has_bits_outside(std::size_t objects) { return objects::words(objects) > span::inline_words; }
static_assert(!has_bits_outside(class_info(2).objects),
              "of the classes, the smallest only has its bits outside");

}  // namespace

// ---- spans ----

span* central::take_pages(std::size_t pages, std::size_t alignment, span_state state, page_heap::use use,
                          page_heap::source from) {
  using source = page_heap::source;
  // `any` may grow the resident set, so it comes last: first warm blocks, magazines and spare spans give back what they keep.
  const source first = from == source::any ? source::warm : from;
  if (span* s = heap_.allocate(pages, alignment, state, first, use)) return s;
  if (from == source::any && give_back_warm_blocks()) {
    if (span* s = heap_.allocate(pages, alignment, state, first, use)) return s;
  }
  if (from == source::any) flush_extra_magazines(pages << page_shift);
  if (depots_.spare_bytes() + heap_.dirty_bytes() >= pages << page_shift) {
    while (release_spares(true, std::max(pages << page_shift, release_step)) != 0) {
      if (span* s = heap_.allocate(pages, alignment, state, first, use)) return s;
    }
  }
  return from == source::any ? heap_.allocate(pages, alignment, state, from, use) : nullptr;
}

// `wanted`: how many objects the caller will take.
bool central::add_span(slot_depot& d, unsigned size_class, page_heap::source from, std::size_t wanted) {
  const auto& info = class_info(size_class);
  const bool outside = has_bits_outside(info.objects);
  void* bits = outside ? blocks_.allocate(objects::bytes_outside) : nullptr;
  if (outside && bits == nullptr) return false;
  const std::size_t fence = hardened_build ? hardened_fence::pages_due(span_bytes(size_class)) : 0;
  span* s = take_pages(info.span_pages + fence, 1, span_state::cut, use_of(size_class), from);
  if (hardened_build && s != nullptr && fence != 0 && !hardened_fence::raise(heap_, s, info.span_pages)) {
    heap_.deallocate(s);
    s = nullptr;
  }
  if (s == nullptr) {
    if (outside) blocks_.deallocate(bits, objects::bytes_outside);
    return false;
  }
  objects::cut(s, size_class, outside ? static_cast<std::uint64_t*>(bits) : s->inline_bits);
  s->free_when_looked = 0;
  if constexpr (hardened_build) zero_dirty_pages(map_, s);
  if (!hardened_build && free_mark::is_outside(size_class)) free_mark::mark_all(map_, s);
  // The new objects are marked free: a stale pointer from an earlier use of the memory may free one. Memory that nobody
  // has used has none, so its objects are marked when they are taken, and pages that no object needs are not touched.
  // Those that the caller is about to take are marked here, without the lock, since the first write to a page is a page
  // fault.
  s->first_unused = 0;
  free_mark::mark_unused(s, hardened_build || !s->is_first_use ? s->capacity : wanted + 1);
  TARN_PROBE(span_made, s->start, s->bytes(), info.size);
  map_.set_objects(s, info.size);
  if (os::is_check_due()) map_.validate(s, size_class, info.size);
  s->home.store(d.home, std::memory_order_relaxed);
  d.counters.spans_made.fetch_add(1, std::memory_order_relaxed);
  d.spare_limit.note_made(1, static_cast<std::uint32_t>(most_extra / span_bytes(size_class)));
  os::lock_guard guard(d.lock, d);
  d.spans.adopt(s);
  s->owner.store(&d, std::memory_order_relaxed);
  depots_.note_spares(d);
  return true;
}

// Requires: the span is in no list and all its objects are free.
void central::destroy_span(span* s) {
  depots_.at(s->size_class, s->home.load(std::memory_order_relaxed))
      .counters.spans_freed.fetch_add(1, std::memory_order_relaxed);
  map_.clear_objects(s);
  if (os::is_check_due()) map_.validate(s, 0, 1);
  s->size_class = 0;
  s->dirty_pages = s->pages;
  std::uint64_t* const outside = s->free_bits != s->inline_bits ? s->free_bits : nullptr;
  if constexpr (hardened_build) hardened_fence::lower(heap_, map_, s);
  heap_.deallocate(s);
  if (outside != nullptr) blocks_.deallocate(outside, objects::bytes_outside);
}

// Ends when `keep` spare spans are left, or at least `most` bytes are released. can_wait: also if the background thread must
// end; the next period goes on. One span at a time: a span that this thread holds while another thread forks is lost to the
// child.
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
      depots_.note_spares(d);
    }
    released += s->bytes();
    destroy_span(s);
  }
  return released;
}

void central::release_surplus_of(unsigned size_class) {
  depots_.for_each(size_class, [&](slot_depot& d) {
    const std::uint32_t most = depots_.most_spares(d, size_class);
    if (d.spare_count() <= most) return;
    const std::size_t released = release_spares_of(d, most, false);
    if (size_classes::is_grain(size_class)) return;
    d.spare_limit.note_given_up(static_cast<std::uint32_t>(released / span_bytes(size_class)));
  });
}

std::size_t central::release_spares(bool all, std::size_t most) {
  std::size_t released = 0;
  for (unsigned c = 1; c < size_classes::all && depots_.spare_bytes() != 0 && released < most; ++c) {
    depots_.for_each(c, [&](slot_depot& d) {
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

// ---- objects ----

// Objects have been taken out of spans: more may wait in full magazines if they were put back in this period.
void central::note_taken(slot_depot& d, unsigned size_class, std::size_t objects) {
  const std::size_t size = class_info(size_class).size;
  if (size < least_waiting || size > class_depots::largest_shared) return;
  const std::size_t bytes =
      std::min(d.taken_hint.load(std::memory_order_relaxed) / extra_magazines_divisor, most_extra_magazines);
  // In objects: as many as fit into magazines that take `bytes` themselves.
  const std::size_t most = bytes * class_info(size_class).magazine / bytes_of_magazine(size_class);
  const bool more =
      d.full_limit.note_made(static_cast<std::uint32_t>(objects), static_cast<std::uint32_t>(most),
                             static_cast<std::uint32_t>(extra_magazines_from / size));
  if (more) has_extra_full_.store(true, std::memory_order_relaxed);
}

std::size_t central::refill(unsigned size_class, magazine* m, std::size_t most, unsigned home) {
  using source = page_heap::source;
  const std::size_t bytes = span_bytes(size_class);
  slot_depot& d = depots_.to_take_from(size_class, home);
  std::size_t found = 0;
  const auto take = [&] { found = depots_.take(d, size_class, m, most, home); };
  // Until a span has objects for the caller, or there is no such memory.
  const auto add_spans = [&](source memory) {
    while (found == 0 && add_span(d, size_class, memory, most)) take();
  };
  const auto take_spared = [&](bool partial) {
    return depots_.take_spared(d, size_class, partial,
                               [&](slot_depot& other) { flush_magazines(other, size_class, true); });
  };
  take();
  while (found == 0 && take_spared(false)) take();
  add_spans(source::backed);
  while (found == 0 && take_spared(true)) take();
  if (found == 0) {
    if (const std::size_t grains = grains_.take(size_class, m->bottom(), most); grains != 0) return grains;
  }
  if (found == 0 && flush_extra_magazines(bytes)) {
    take();
    add_spans(source::backed);
  }
  add_spans(source::warm);
  // Before a new span grows the resident set: purges free memory that lies in pieces too short for the span.
  if (found == 0)
    heap_.purge_before_growth(bytes, std::max(heap_.in_use_bytes() / kept_divisor, least_kept) + bytes);
  add_spans(source::any);
  note_taken(d, size_class, found);
  TARN_PROBE(refill, class_info(size_class).size, found);
  m->close_gap(most, found);
  if constexpr (hardened_build) riffle(m->bottom(), found);
  d.counters.refills.fetch_add(1, std::memory_order_relaxed);
  return found;
}

void* central::take_one(unsigned size_class, unsigned home, bool from_own_spans) {
  single_magazine single;
  slot_depot& d = depots_.at(size_class);
  std::size_t found = 0;
  do {
    found = from_own_spans ? depots_.take(d, size_class, &single.head, 1, 0)
                           : refill(size_class, &single.head, 1, home);
  } while (found == 0 && from_own_spans && add_span(d, size_class, page_heap::source::any, 1));
  if (found == 0) return nullptr;
  free_mark::clear(map_, size_class, single.object());
  return single.object();
}

void central::flush(unsigned size_class, void** freed, std::size_t count) {
  flush_draining(size_class, depots_.put_back(size_class, freed, count, true));
}

// A single object in a full magazine may keep a span from being freed, so magazines of depots that have begun to drain
// are flushed. `homes`: one bit for each such depot.
void central::flush_draining(unsigned size_class, std::uint32_t homes) {
  while (TARN_UNLIKELY(homes != 0)) {
    slot_depot& d = depots_.at(size_class, static_cast<unsigned>(std::countr_zero(homes)));
    homes = (homes & (homes - 1)) | put_back_magazines(d, size_class, true, true);
  }
}

// ---- full magazines ----

magazine* central::take_full(unsigned size_class, unsigned home) {
  slot_depot& d = depots_.to_take_from(size_class, home);
  // Read without the lock: a stale value only costs a refill.
  if (d.full_hint() == 0) return nullptr;
  os::lock_guard guard(d.lock, d);
  depots_.note_taker(d, size_class, home);
  return d.pop_full();
}

bool central::give_full(unsigned size_class, magazine* m, unsigned home, magazine** empty) {
  if (TARN_UNLIKELY(depots_.count(size_class) != 1)) {
    const auto home_of = [this](const void* object) -> unsigned {
      // relaxed: who puts the object back looks again, under the lock.
      return map_.span_of(address_of(object))->home.load(std::memory_order_relaxed);
    };
    // A few objects stand for all. (A span that was divided into grains has home 0.)
    const unsigned of_most = home_of(m->bottom()[0]);
    const bool agree =
        of_most == home_of(m->bottom()[m->count / 2]) && of_most == home_of(m->bottom()[m->count - 1]);
    if (agree && of_most < home_counts::most) home = of_most;
  }
  slot_depot& d = depots_.at(size_class, home);
  const std::size_t count = m->count;  // m belongs to others after the call
  if (!d.give_full(m, most_full_magazines(d, size_class, depots_.count(size_class)), empty)) return false;
  if (count > class_info(size_class).magazine) has_extra_full_.store(true, std::memory_order_relaxed);
  // No span becomes spare while all objects wait here, so nothing else may wake decay.
  const std::size_t bytes = count * class_info(size_class).size;
  if (d.full_hint() == (class_depots::spare_watch_bytes + bytes - 1) / bytes) depots_.note_spare_news();
  return true;
}

// A depot has at most as many magazines, full and empty ones, as it may have full ones.
bool central::leave_empty(unsigned size_class, magazine* m, unsigned home) {
  slot_depot& d = depots_.at(size_class, home);
  // A shorter one would not do for every giver.
  if (m->capacity < class_info(size_class).magazine) return false;
  if (d.full_hint() + d.empty_hint() >= most_full_magazines(d, size_class, depots_.count(size_class)))
    return false;
  d.leave_empty(m);
  return true;
}

void central::flush_magazines(slot_depot& d, unsigned size_class, bool all) {
  flush_draining(size_class, put_back_magazines(d, size_class, all, false));
}

// As depots_.put_back(), for the objects of full magazines. `given_up`: they count as that in adaptive_limit; those of
// magazines that nobody took, or whose limit ends, do not. Takes one magazine at a time: a forked child loses what another
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
    draining |= depots_.put_back(size_class, m->bottom(), m->count, given_up);
    magazines_.deallocate(m);
  }
  return draining;
}

void central::flush_idle_magazines(bool all) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    depots_.for_each(c, [&](slot_depot& d) {
      if (!all || d.full_hint() != 0 || d.empty_hint() != 0) flush_magazines(d, c, all);
    });
  }
}

// Before the resident set grows by `bytes`: puts the objects of classes that keep more full magazines than their limit
// back into their spans, until so many bytes of spans are spare; what these classes gave up before no longer counts.
// True: there may have been such classes, so the caller looks again; the spare bytes may still be fewer. False: there are
// none.
bool central::flush_extra_magazines(std::size_t bytes) {
  if (!has_extra_full_.load(std::memory_order_relaxed) ||
      !has_extra_full_.exchange(false, std::memory_order_relaxed)) {
    return false;
  }
  for (unsigned c = 1; c < size_classes::count; ++c) {
    depots_.for_each(c, [&](slot_depot& d) {
      // Magazines of larger objects may be long ones of threads that used many.
      const bool may_be_long = class_info(c).size > class_depots::largest_shared && d.full_hint() != 0;
      if (d.full_limit.extra() == 0 && !may_be_long) return;
      flush_magazines(d, c, true);
      d.full_limit.clear();
    });
    if (depots_.spare_bytes() >= bytes) {
      // The classes behind this one may still have some.
      has_extra_full_.store(true, std::memory_order_relaxed);
      break;
    }
  }
  wake_decay_if_spare();
  return true;
}

std::size_t central::purge_idle_pages(bool all) {
  const std::size_t purged = idle_pages_.purge(all);
  wake_decay_if_spare();
  return purged;
}

std::size_t central::handover_bytes() {
  std::size_t bytes = 0;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    depots_.for_each(c, [&](slot_depot& d) {
      if (d.full_hint() != 0) bytes += d.waiting() * class_info(c).size;
    });
  }
  return bytes;
}

}  // namespace tarn
