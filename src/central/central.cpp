// SPDX-License-Identifier: MIT
#include "central/central.hpp"

#include <algorithm>
#include <cstring>

#include "central/free_mark.hpp"
#include "central/hardened_shuffle.hpp"
#include "central/objects.hpp"
#include "os/report.hpp"
#include "os/thread.hpp"
#include "pages/zero_pages.hpp"

namespace tarn {
namespace {

// The most bytes of one class that may wait in full magazines for hand-over.
constexpr std::size_t handover_limit = 64 * kib;
// Objects up to this size are assumed to be written from end to end (page_heap::use::dense).
constexpr std::size_t largest_dense = 8 * kib;
// A refill takes objects from at most this many spans.
constexpr std::size_t spans_per_refill = 16;

// Before a span takes fresh memory, this fraction of the bytes in use stays backed, and at least least_kept.
constexpr std::size_t kept_divisor = 32;
constexpr std::size_t least_kept = 2 * mib;

// A magazine for one object, on the stack.
struct single_magazine {
  magazine head;
  void* slot;
};

std::size_t most_full_magazines(unsigned size_class) {
  const auto& info = class_info(size_class);
  const std::size_t bytes = std::size_t{info.size} * info.magazine;
  return bytes >= handover_limit / 2 ? 2 : handover_limit / bytes;
}

[[noreturn]] void report_freed_twice(const void* object) {
  os::fatal("double free, detected when the block returned to its span", object);
}
[[noreturn]] void report_no_block_of_grains(const void* object) {
  os::fatal("double free, or invalid free of a pointer into a block", object);
}

constexpr bool has_bits_apart(std::size_t objects) { return objects::words(objects) > span::inline_words; }
static_assert(!has_bits_apart(class_info(2).objects),
              "of the classes, central::bits_ is for the smallest only");
static_assert(2 * objects::words(size_classes::most_grains) <= objects::words(class_info(1).objects));

}  // namespace

// ---- spans ----

span* central::take_pages(std::size_t pages, std::size_t alignment, span_state state, page_heap::use use,
                          page_heap::source from) {
  using source = page_heap::source;
  const source first = from == source::any ? source::warm : from;
  if (span* s = heap_.allocate(pages, alignment, state, first, use)) return s;
  if (spare_bytes() + heap_.dirty_bytes() >= pages << page_shift && release_spares(true) != 0) {
    if (span* s = heap_.allocate(pages, alignment, state, first, use)) return s;
  }
  return from == source::any ? heap_.allocate(pages, alignment, state, from, use) : nullptr;
}

bool central::add_span(unsigned size_class, page_heap::source from) {
  const auto& info = class_info(size_class);
  const bool apart = has_bits_apart(info.objects);
  void* bits = apart ? bits_.allocate(metadata_) : nullptr;
  if (apart && bits == nullptr) return false;
  span* s = take_pages(info.span_pages, 1, span_state::cut,
                       info.size <= largest_dense ? page_heap::use::dense : page_heap::use::sparse, from);
  if (s == nullptr) {
    if (apart) bits_.deallocate(bits);
    return false;
  }
  s->free_bits = apart ? static_cast<std::uint64_t*>(bits) : s->inline_bits;
  s->capacity = info.objects;
  s->size_class = static_cast<std::uint8_t>(size_class);
  objects::set_all_free(s->free_bits, s->capacity);
  if constexpr (hardened_build) zero_dirty_pages(map_, s);
  // Fresh objects are marked free too: a stale pointer from an earlier use of the memory may free one.
  if constexpr (!hardened_build) {
    for (std::size_t i = 0; i < s->capacity; ++i) free_mark::set(objects::at(s, i));
  }
  map_.set_objects(s, info.size);
  if (os::is_check_due()) map_.validate(s, size_class, info.size);
  object_depot& d = depots_[size_class];
  d.counters.spans_made.fetch_add(1, std::memory_order_relaxed);
  os::lock_guard guard(d.lock, d);
  d.add(s);
  spare_bytes_.fetch_add(s->bytes(), std::memory_order_relaxed);
  return true;
}

// Requires: the span is in no list and all its objects are free.
void central::destroy_span(span* s) {
  depots_[s->size_class].counters.spans_freed.fetch_add(1, std::memory_order_relaxed);
  map_.map_pages(s);
  if (os::is_check_due()) map_.validate(s, 0, 1);
  s->size_class = 0;
  std::uint64_t* const apart = s->free_bits != s->inline_bits ? s->free_bits : nullptr;
  heap_.deallocate(s);
  if (apart != nullptr) bits_.deallocate(apart);
}

// Updates `draining` and the class's bit in sparse_ after the counts of its depot have changed. True if the class has
// just begun to drain.
bool central::review(object_depot& d, unsigned size_class) {
  const bool drains = d.review(class_info(size_class).size);
  if (size_classes::is_grain(size_class)) return false;
  std::atomic<std::uint64_t>& word = sparse_[size_class / 64];
  const std::uint64_t bit = std::uint64_t{1} << (size_class % 64);
  const bool noted = (word.load(std::memory_order_relaxed) & bit) != 0;
  if (TARN_UNLIKELY(noted != d.sparse)) word.fetch_xor(bit, std::memory_order_relaxed);
  return drains;
}

// ---- objects ----

// Takes at most `most` free objects out of the class's spans, the fullest span first, so that the others become empty
// and can serve other classes. The objects found lie at the end of the first `most` slots of `m`.
std::size_t central::take_objects(unsigned size_class, magazine* m, std::size_t most) {
  object_depot& d = depots_[size_class];
  std::size_t found = 0;
  os::lock_guard guard(d.lock, d);
  for (std::size_t visited = 0; found < most && visited < spans_per_refill; ++visited) {
    span* s = d.best();
    // A spare span is used only if nothing else has been found.
    if (s == nullptr || (s->list == object_depot::spare_list && found != 0)) break;
    if (s->list == object_depot::spare_list) spare_bytes_.fetch_sub(s->bytes(), std::memory_order_relaxed);
    // Filled from the top down, so that the first object found is handed out first.
    void** slot = m->slots + most - found;
    const std::uintptr_t first = objects::first_of(s);
    const std::size_t size = class_info(size_class).size;
    const std::size_t count = objects::take_free(
        s, most - found, [&](std::size_t index) { *slot-- = reinterpret_cast<void*>(first + index * size); });
    found += count;
    d.change_free_count(s, -static_cast<int>(count));
  }
  review(d, size_class);
  return found;
}

// Before a new span grows the resident set: purges free memory that lies in pieces too short for the span.
void central::purge_before_growth(unsigned size_class) {
  const std::size_t bytes = std::size_t{class_info(size_class).span_pages} << page_shift;
  heap_.purge_before_growth(bytes, std::max(heap_.in_use_bytes() / kept_divisor, least_kept) + bytes);
}

std::size_t central::refill(unsigned size_class, magazine* m, std::size_t most) {
  using source = page_heap::source;
  std::size_t found = take_objects(size_class, m, most);
  const auto add_spans = [&](source from) {
    while (found == 0 && add_span(size_class, from)) found = take_objects(size_class, m, most);
  };
  add_spans(source::backed);
  if (found == 0) {
    if (const std::size_t grains = take_grains(size_class, m->bottom(), most); grains != 0) return grains;
  }
  add_spans(source::warm);
  if (found == 0) purge_before_growth(size_class);
  add_spans(source::any);
  if (found != most) {
    std::memmove(static_cast<void*>(m->bottom()), static_cast<const void*>(m->bottom() + (most - found)),
                 found * sizeof(void*));
  }
  if constexpr (hardened_build) riffle(m->bottom(), found);
  depots_[size_class].counters.refills.fetch_add(1, std::memory_order_relaxed);
  return found;
}

void* central::take_one(unsigned size_class) {
  single_magazine single{};
  if (refill(size_class, &single.head, 1) == 0) return nullptr;
  void* const object = single.head.bottom()[0];
  free_mark::clear(object);
  return object;
}

void* central::take_from_own_spans(unsigned size_class) {
  single_magazine single{};
  std::size_t found = 0;
  do {
    found = take_objects(size_class, &single.head, 1);
  } while (found == 0 && add_span(size_class, page_heap::source::any));
  if (found == 0) return nullptr;
  void* const object = single.head.bottom()[0];
  free_mark::clear(object);
  return object;
}

void central::flush(unsigned size_class, void** freed, std::size_t count) {
  // Objects often come back in random order, so their spans are rarely in the processor's cache: prefetch them.
  span* owners[largest_magazine];
  for (std::size_t i = 0; i < count; ++i) {
    owners[i] = map_.span_of(address_of(freed[i]));
    __builtin_prefetch(owners[i], 1);
    __builtin_prefetch(&owners[i]->inline_bits[span::inline_words - 1], 1);
  }
  bool drains = false;
  const std::size_t misplaced = put_back(size_class, freed, owners, count, drains);
  depots_[size_class].counters.flushes.fetch_add(1, std::memory_order_relaxed);
  if (TARN_UNLIKELY(misplaced != 0)) flush_misplaced(size_class, freed, owners, misplaced);
  // A single object in a full magazine may keep a span from being freed.
  if (TARN_UNLIKELY(drains)) flush_magazines(size_class, true);
}

// Objects from a magazine of the class that lie in spans of other classes. Either the span has been divided into grains
// since, or the object was freed twice and its span has been reused: an error.
void central::flush_misplaced(unsigned size_class, void** freed, span** owners, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto grain = static_cast<unsigned>(map_.class_of(address_of(freed[i])));
    bool drains = false;
    if (grain == size_class || !size_classes::is_grain(grain) ||
        put_back(grain, freed + i, owners + i, 1, drains) != 0) {
      report_freed_twice(freed[i]);
    }
  }
}

// Puts objects back into spans of the class. Moves objects that lie in spans of other classes to the front of both
// arrays; returns their number.
std::size_t central::put_back(unsigned size_class, void** freed, span** owners, std::size_t count,
                              bool& drains) {
  object_depot& d = depots_[size_class];
  const bool grain = size_classes::is_grain(size_class);
  void* freed_twice = nullptr;
  std::size_t misplaced = 0;
  {
    os::lock_guard guard(d.lock, d);
    std::size_t unmoved = 0;
    for (std::size_t i = 0; i < count; ++i) {
      span* const s = owners[i];
      if (TARN_UNLIKELY(s->size_class != size_class || !s->contains(address_of(freed[i])))) {
        owners[misplaced] = s;
        freed[misplaced++] = freed[i];
        continue;
      }
      const std::size_t index = objects::index_of(s, address_of(freed[i]));
      const std::size_t length =
          TARN_UNLIKELY(grain) ? objects::untie(s, index) : objects::set_free(s, index);
      // Its bit is set already: freed twice.
      if (TARN_UNLIKELY(length == 0)) {
        freed_twice = freed[i];
        continue;
      }
      if (TARN_UNLIKELY(grain)) s->no_run_of = 0;
      if (TARN_LIKELY(!grain && object_depot::try_add_free_in_place(s))) {
        ++unmoved;
        continue;
      }
      if (d.change_free_count(s, static_cast<int>(length)) &&
          spare_bytes_.fetch_add(s->bytes(), std::memory_order_relaxed) >= spare_watch_bytes) {
        spare_news_.store(true, std::memory_order_relaxed);
      }
    }
    d.add_free_slots(unmoved);
    drains = review(d, size_class);
  }
  if (TARN_UNLIKELY(freed_twice != nullptr)) {
    grain ? report_no_block_of_grains(freed_twice) : report_freed_twice(freed_twice);
  }
  return misplaced;
}

magazine* central::take_full(unsigned size_class) {
  object_depot& d = depots_[size_class];
  // Read without the lock, as in give_full().
  if (d.full_hint() == 0) return nullptr;
  magazine* m = nullptr;
  {
    os::lock_guard guard(d.lock, d);
    m = d.full.pop();
  }
  if (m == nullptr) return nullptr;
  d.counters.exchanges.fetch_add(1, std::memory_order_relaxed);
  return m;
}

bool central::give_full(unsigned size_class, magazine* m) {
  object_depot& d = depots_[size_class];
  // Read without the lock: a full depot is common, and a stale count costs at most a flush, or a magazine above the
  // limit.
  if (d.full_hint() >= most_full_magazines(size_class)) return false;
  os::lock_guard guard(d.lock, d);
  d.full.push(m);
  d.counters.exchanges.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// ---- giving back ----

// One span at a time: a span that this thread holds while another thread forks is lost to the child.
std::size_t central::release_spares_of(unsigned size_class, std::uint32_t keep, bool can_wait) {
  object_depot& d = depots_[size_class];
  std::size_t released = 0;
  for (;;) {
    if (can_wait && os::background_thread_must_end()) return released;
    span* s = nullptr;
    {
      os::lock_guard guard(d.lock, d);
      if (d.spare_count.load(std::memory_order_relaxed) > keep) s = d.take_spare_span();
      if (s == nullptr) return released;
      s->state.store(span_state::purging, std::memory_order_relaxed);
      spare_bytes_.fetch_sub(s->bytes(), std::memory_order_relaxed);
    }
    released += s->bytes();
    destroy_span(s);
  }
}

void central::settle_slow(unsigned size_class) {
  release_spares_of(size_class, most_spares(size_class), false);
}

std::size_t central::release_spares(bool all) {
  std::size_t released = 0;
  for (unsigned c = 1; c < size_classes::all && spare_bytes() != 0; ++c) {
    object_depot& d = depots_[c];
    std::uint32_t used = 0;
    {
      os::lock_guard guard(d.lock, d);
      const std::uint32_t count = d.spare_count.load(std::memory_order_relaxed);
      used = count - d.spare_low.end_period(count);
    }
    released += release_spares_of(c, all ? 0 : used, !all);
  }
  return released;
}

void central::flush_magazines(unsigned size_class, bool all) {
  object_depot& d = depots_[size_class];
  magazine* idle = nullptr;
  {
    os::lock_guard guard(d.lock, d);
    idle = d.full.take_idle(all);
  }
  while (idle != nullptr) {
    magazine* m = idle;
    idle = m->next;
    flush(size_class, m->bottom(), m->count);
    magazines_.deallocate(m);
  }
}

void central::flush_idle_magazines(bool all) {
  for (unsigned c = 1; c < size_classes::count; ++c) flush_magazines(c, all);
}

std::size_t central::handover_bytes() {
  std::size_t bytes = 0;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    os::lock_guard guard(depots_[c].lock, depots_[c]);
    for (const magazine* m = depots_[c].full.first(); m != nullptr; m = m->next)
      bytes += m->count * std::size_t{class_info(c).size};
  }
  return bytes;
}

}  // namespace tarn
