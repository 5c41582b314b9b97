// SPDX-License-Identifier: MIT
#include "slots/central.hpp"

#include <algorithm>
#include <bit>

#include "os/probe.hpp"

#include "os/report.hpp"
#include "pages/zero_pages.hpp"
#include "slots/free_mark.hpp"
#include "slots/hardened_fence.hpp"
#include "slots/hardened_shuffle.hpp"
#include "slots/objects.hpp"

namespace tarn {
namespace {

// Objects up to this size are assumed to be written from end to end (page_heap::use::dense).
constexpr std::size_t largest_dense = 8 * kib;
// The most bytes of spare spans that a depot keeps beyond its limit because it uses them.
constexpr std::size_t most_extra = 16 * mib;
// Spare spans are given to the page heap in steps of this many bytes until it has enough.
constexpr std::size_t release_step = 128 * kib;
// Stands for the span of an object that is in no span of its class: no depot has its home.
constinit span no_span{central::no_home};

// Before a span takes fresh memory, this fraction of the bytes in use stays backed, and at least least_kept.
constexpr std::size_t kept_divisor = 32;
constexpr std::size_t least_kept = 2 * mib;

[[noreturn]] void report_freed_twice(const void* object) {
  os::fatal("double free, detected when the block returned to its span", object);
}
[[noreturn]] void report_no_block_of_grains(const void* object) {
  os::fatal("double free, or invalid free of a pointer into a block", object);
}

constexpr bool has_bits_apart(std::size_t objects) { return objects::words(objects) > span::inline_words; }
static_assert(!has_bits_apart(class_info(2).objects), "of the classes, the smallest only has its bits apart");
static_assert(2 * objects::words(size_classes::most_grains) <= objects::words(class_info(1).objects));

}  // namespace

// ---- spans ----

span* central::take_pages(std::size_t pages, std::size_t alignment, span_state state, page_heap::use use,
                          page_heap::source from) {
  using source = page_heap::source;
  const source first = from == source::any ? source::warm : from;
  if (span* s = heap_.allocate(pages, alignment, state, first, use)) return s;
  if (from == source::any) flush_extra_magazines(pages << page_shift);
  if (spare_bytes() + heap_.dirty_bytes() >= pages << page_shift) {
    while (release_spares(true, std::max(pages << page_shift, release_step)) != 0) {
      if (span* s = heap_.allocate(pages, alignment, state, first, use)) return s;
    }
  }
  return from == source::any ? heap_.allocate(pages, alignment, state, from, use) : nullptr;
}

bool central::add_span(slot_depot& d, unsigned size_class, page_heap::source from, std::size_t wanted) {
  const auto& info = class_info(size_class);
  const bool apart = has_bits_apart(info.objects);
  void* bits = apart ? blocks_.allocate(bytes_apart) : nullptr;
  if (apart && bits == nullptr) return false;
  const std::size_t fence = hardened_build ? hardened_fence::pages_due(span_bytes(size_class)) : 0;
  span* s = take_pages(info.span_pages + fence, 1, span_state::cut,
                       info.size <= largest_dense ? page_heap::use::dense : page_heap::use::filled, from);
  if (hardened_build && s != nullptr && fence != 0 && !hardened_fence::raise(heap_, s, info.span_pages)) {
    heap_.deallocate(s);
    s = nullptr;
  }
  if (s == nullptr) {
    if (apart) blocks_.deallocate(bits, bytes_apart);
    return false;
  }
  objects::cut(s, size_class, apart ? static_cast<std::uint64_t*>(bits) : s->inline_bits);
  s->free_when_looked = 0;
  if constexpr (hardened_build) zero_dirty_pages(map_, s);
  // The new objects are marked free: a stale pointer from an earlier use of the memory may free one. Memory that nobody
  // has used has none, so its objects are marked when they are taken, and pages that no object needs are not touched.
  // Those that the caller is about to take are marked here, without the lock, since the first write to a page is a page
  // fault.
  s->first_unused = 0;
  mark_unused(s, hardened_build || !s->is_first_use ? s->capacity : wanted + 1);
  TARN_PROBE(span_made, s->start, s->bytes(), info.size);
  map_.set_objects(s, info.size);
  if (os::is_check_due()) map_.validate(s, size_class, info.size);
  s->home.store(d.home, std::memory_order_relaxed);
  d.counters.spans_made.fetch_add(1, std::memory_order_relaxed);
  d.spare_limit.note_made(1, static_cast<std::uint32_t>(most_extra / span_bytes(size_class)));
  os::lock_guard guard(d.lock, d);
  d.spans.adopt(s);
  s->owner.store(&d, std::memory_order_relaxed);
  note_spares(d);
  return true;
}

// Marks the objects before `end` that have never been used.
void central::mark_unused(span* s, std::size_t end) {
  std::size_t i = s->first_unused;
  for (; i < std::min<std::size_t>(end, s->capacity); ++i) free_mark::set(objects::at(s, i));
  s->first_unused = static_cast<std::uint32_t>(i);
}

// Requires: the span is in no list and all its objects are free.
void central::destroy_span(span* s) {
  depot(s->size_class, s->home.load(std::memory_order_relaxed))
      .counters.spans_freed.fetch_add(1, std::memory_order_relaxed);
  map_.map_pages(s);
  if (os::is_check_due()) map_.validate(s, 0, 1);
  s->size_class = 0;
  s->dirty_pages = s->pages;
  std::uint64_t* const apart = s->free_bits != s->inline_bits ? s->free_bits : nullptr;
  if constexpr (hardened_build) hardened_fence::lower(heap_, map_, s);
  heap_.deallocate(s);
  if (apart != nullptr) blocks_.deallocate(apart, bytes_apart);
}

// Updates `draining` and the class's bit in sparse_ after the counts of its depot have changed. True if the class has
// just begun to drain.
bool central::review(slot_depot& d, unsigned size_class) {
  const bool was_sparse = d.sparse;
  const bool drains = d.review(class_info(size_class).size, depot_count(size_class) != 1);
  // The words are written and read by all threads: touched only if the bit changes.
  if (TARN_UNLIKELY(was_sparse != d.sparse) && !size_classes::is_grain(size_class)) {
    sparse_[d.home][size_class / 64].fetch_xor(std::uint64_t{1} << (size_class % 64),
                                               std::memory_order_relaxed);
  }
  return drains;
}

// Keeps the sum of the spare spans' bytes. True: there are more of them than before.
bool central::note_spares(slot_depot& d) {
  const std::size_t change = d.take_spare_change();
  if (TARN_UNLIKELY(change != 0)) spare_bytes_.fetch_add(change, std::memory_order_relaxed);
  return static_cast<std::ptrdiff_t>(change) > 0;
}

// ---- objects ----

// What malloc's classes do with spans: slot_depot.hpp. Under the lock of the depot.
struct central::class_front {
  span* next(slot_depot& d, bool is_first) const TARN_NOT_ANALYZED {
    span* const s = is_first ? tier.best_span(d) : d.spans.best();
    if (is_first && s != nullptr && slot_spans::is_spare(s)) d.spare_end = s->end();
    return s;
  }
  void open(span* s) {
    if (TARN_UNLIKELY(s->free_when_looked != 0)) tier.list_again(s);
    size = info.size;
    first = s->end() - s->capacity * size;
  }
  [[nodiscard]] void* at(const span* /*s*/, std::size_t index) const {
    return reinterpret_cast<void*>(first + index * size);
  }
  // Marks also the object behind the last one, which a program frees that frees the end of a block instead of its
  // beginning.
  static void taken(span* s, std::size_t last) {
    if (TARN_UNLIKELY(s->first_unused < s->capacity)) mark_unused(s, last + 2);
  }

  [[nodiscard]] span* elsewhere(span* s, const void* object) const {
    // acquire: partner of the release where a span gets another depot. Only a span of this depot is read further.
    if (TARN_UNLIKELY(s->home.load(std::memory_order_acquire) != home)) return s;
    const bool is_here = s->size_class == size_class && s->contains(address_of(object));
    return TARN_LIKELY(is_here) ? nullptr : &no_span;
  }
  std::size_t set_free(span* s, const void* object) {
    const std::size_t index = objects::index_of(info, s, address_of(object));
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

  central& tier;
  const std::uint8_t home;
  const unsigned size_class;
  const bool is_grain = size_classes::is_grain(size_class);
  const slot_class& info = class_info(size_class);
  std::size_t size = 0;
  std::uintptr_t first = 0;  // of the span that has been opened
  const void* freed_twice = nullptr;
};

// The span to take objects from. Spare spans are used in the order of their addresses as far as they are neighbours: a
// program that frees a large container in random order and fills it again then walks through memory, not back and forth.
span* central::best_span(const slot_depot& d) const {
  span* const best = d.spans.best();
  if (best == nullptr || !slot_spans::is_spare(best)) return best;
  span* const behind = map_.visible_span_of(d.spare_end);
  // Only under this depot's lock does a span become its own or stop being so, hence `list` may be read.
  const bool is_spare = behind != nullptr && behind->owner.load(std::memory_order_relaxed) == &d &&
                        slot_spans::is_spare(behind) && behind->start == d.spare_end;
  return is_spare ? behind : best;
}

// Takes at most `most` free objects out of the class's spans. The objects found lie at the end of the first `most` slots
// of `m`, the first one on top, so that it is handed out first.
std::size_t central::take_objects(slot_depot& d, unsigned size_class, magazine* m, std::size_t most,
                                  unsigned home) {
  class_front front{*this, d.home, size_class};
  os::lock_guard guard(d.lock, d);
  if (d.home == 0) note_taker(d, size_class, home);
  const std::size_t found = d.take(front, m->slots + most, most);
  note_spares(d);
  note_taken(d, size_class, found);
  review(d, size_class);
  return found;
}

// Before a new span grows the resident set: purges free memory that lies in pieces too short for the span.
void central::purge_before_growth(unsigned size_class) {
  const std::size_t bytes = span_bytes(size_class);
  heap_.purge_before_growth(bytes, std::max(heap_.in_use_bytes() / kept_divisor, least_kept) + bytes);
}

std::size_t central::refill(unsigned size_class, magazine* m, std::size_t most, unsigned home) {
  using source = page_heap::source;
  slot_depot& d = depot_to_refill(size_class, home);
  std::size_t found = 0;
  const auto take = [&] { found = take_objects(d, size_class, m, most, home); };
  const auto add_spans = [&](source from) {
    while (found == 0 && add_span(d, size_class, from, most)) take();
  };
  take();
  while (found == 0 && take_spared(d, size_class, false)) take();
  add_spans(source::backed);
  while (found == 0 && take_spared(d, size_class, true)) take();
  if (found == 0) {
    if (const std::size_t grains = take_grains(size_class, m->bottom(), most); grains != 0) return grains;
  }
  if (found == 0 && flush_extra_magazines(span_bytes(size_class))) {
    take();
    add_spans(source::backed);
  }
  add_spans(source::warm);
  if (found == 0) purge_before_growth(size_class);
  add_spans(source::any);
  TARN_PROBE(refill, class_info(size_class).size, found);
  m->close_gap(most, found);
  if constexpr (hardened_build) riffle(m->bottom(), found);
  d.counters.refills.fetch_add(1, std::memory_order_relaxed);
  return found;
}

void* central::take_one(unsigned size_class, unsigned home) {
  single_magazine single;
  if (refill(size_class, &single.head, 1, home) == 0) return nullptr;
  void* const object = single.object();
  free_mark::clear(object);
  return object;
}

void* central::take_from_own_spans(unsigned size_class) {
  single_magazine single;
  std::size_t found = 0;
  do {
    found = take_objects(depots_[size_class], size_class, &single.head, 1, 0);
  } while (found == 0 && add_span(depots_[size_class], size_class, page_heap::source::any, 1));
  if (found == 0) return nullptr;
  void* const object = single.object();
  free_mark::clear(object);
  return object;
}

void central::flush(unsigned size_class, void** freed, std::size_t count) {
  flush_draining(size_class, put_back_all(size_class, freed, count, true));
}

// A single object in a full magazine may keep a span from being freed, so magazines of depots that have begun to drain
// are flushed. `homes`: one bit for each such depot.
void central::flush_draining(unsigned size_class, std::uint32_t homes) {
  while (TARN_UNLIKELY(homes != 0)) {
    slot_depot& d = depot(size_class, static_cast<unsigned>(std::countr_zero(homes)));
    homes = (homes & (homes - 1)) | put_back_magazines(d, size_class, true, true);
  }
}

// Puts objects back into the spans of all depots of the class. `given_up`: a higher limit of full magazines would have
// kept them. Returns one bit for each depot that has begun to drain.
std::uint32_t central::put_back_all(unsigned size_class, void** freed, std::size_t count, bool given_up) {
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
    if (TARN_LIKELY(home < most_homes)) {
      slot_depot& d = depot(size_class, home);
      if (TARN_LIKELY(d.home == home)) {
        const std::size_t left = put_back(d, size_class, freed, owners, count, draining);
        if (given_up) d.full_limit.note_given_up(static_cast<std::uint32_t>(count - left));
        count = left;
        continue;
      }
    }
    flush_misplaced(size_class, freed[0]);
    --count;
    freed[0] = freed[count];
    owners[0] = owners[count];
  }
  return draining;
}

// An object from a magazine of the class that lies in a span of another class. Either the span has been divided into
// grains since, or the object was freed twice and its span has been reused: an error.
void central::flush_misplaced(unsigned size_class, void* freed) {
  const auto grain = static_cast<unsigned>(map_.class_of(address_of(freed)));
  span* owner = map_.span_of(address_of(freed));
  void* object = freed;
  std::uint32_t draining = 0;  // no magazine holds a block of grains as such
  if (grain == size_class || !size_classes::is_grain(grain) ||
      put_back(depots_[grain], grain, &object, &owner, 1, draining) != 0) {
    report_freed_twice(freed);
  }
}

// Puts objects back into spans of the depot, which is one of the class. Moves the others to the front of both arrays,
// with no_span for those that lie in spans of other classes; returns their number.
std::size_t central::put_back(slot_depot& d, unsigned size_class, void** freed, span** owners,
                              std::size_t count, std::uint32_t& draining) {
  class_front front{*this, d.home, size_class};
  std::size_t left = 0;
  {
    os::lock_guard guard(d.lock, d);
    left = d.put(front, freed, owners, count, freed);
    if (note_spares(d)) {
      if (spare_bytes() >= spare_watch_bytes + span_bytes(size_class))
        spare_news_.store(true, std::memory_order_relaxed);
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

}  // namespace tarn
