// SPDX-License-Identifier: MIT
#include "central/central.hpp"

#include "base/fence.hpp"
#include "central/objects.hpp"
#include "os/report.hpp"

namespace tarn {
namespace {

// What one class may keep in full magazines for hand-over.
constexpr std::size_t handover_limit = 64 * kib;
// A refill looks at no more spans than this once it has something.
constexpr std::size_t spans_per_refill = 16;
// How many listed spans are looked at for one that is not sparse.
constexpr int looks_per_acquire = 4;
// Empty spans beyond this wake the watcher, so that they go back although nobody allocates.
constexpr std::size_t spare_watch_bytes = 1 * mib;
// Magazines of classes with at most so many objects in one are marked when they are handed over.
constexpr std::size_t longest_marked = 160;

std::size_t most_full_magazines(unsigned size_class) {
  const auto& info = class_info(size_class);
  const std::size_t bytes = std::size_t{info.size} * info.magazine;
  return bytes >= handover_limit / 2 ? 2 : handover_limit / bytes;
}

}  // namespace

// ---- spans
// --------------------------------------------------------------------------------------------------

span* central::take_pages(std::size_t pages) {
  // Warm memory first, empty spans of other classes included, before the resident set grows.
  if (span* s = heap_.allocate(pages, 1, span_state::held, page_heap::source::warm, true)) return s;
  if (spare_bytes() >= pages << page_shift && release_spares(true) != 0) {
    if (span* s = heap_.allocate(pages, 1, span_state::held, page_heap::source::warm, true)) return s;
  }
  return heap_.allocate(pages, 1, span_state::held, page_heap::source::any, true);
}

span* central::make_span(unsigned size_class) {
  const auto& info = class_info(size_class);
  void* array = arrays_[size_class].allocate(metadata_);
  if (array == nullptr) return nullptr;
  span* s = take_pages(info.span_pages);
  if (s == nullptr) {
    arrays_[size_class].deallocate(array);
    return nullptr;
  }
  s->objects = static_cast<objects::byte*>(array);
  s->reciprocal = info.reciprocal;
  s->capacity = info.objects;
  s->size_class.store(static_cast<std::uint8_t>(size_class), std::memory_order_relaxed);
  objects::fill_free(s->objects, s->capacity);
  map_.set_objects(s);
  depots_[size_class].counters.spans_made.fetch_add(1, std::memory_order_relaxed);
  return s;
}

// The span is in no list and none of its objects is in use.
void central::destroy_span(span* s) {
  const std::size_t size_class = s->size_class.load(std::memory_order_relaxed);
  depots_[size_class].counters.spans_freed.fetch_add(1, std::memory_order_relaxed);
  map_.clear_classes(s);
  objects::byte* array = s->objects;
  s->size_class.store(0, std::memory_order_relaxed);
  s->objects = nullptr;
  heap_.deallocate(s);
  arrays_[size_class].deallocate(array);
}

// Takes a span with free objects out of its list.
span* central::take_listed(object_depot& d, span_list& from) {
  os::lock_guard guard(d.lock);
  span* s = from.pop_front();
  if (s != nullptr) s->state.store(span_state::held, std::memory_order_relaxed);
  return s;
}

// Nearly full spans are filled up first, and those that are mostly free only when there is no other: most of
// them then run empty and serve other classes. A span's place in the lists says little of how full it is by
// now, so each is looked at when its turn comes, and put behind if it is sparse.
span* central::acquire(unsigned size_class, bool fresh) {
  object_depot& d = depots_[size_class];
  for (int look = 0; look < looks_per_acquire; ++look) {
    span* s = take_listed(d, d.listed);
    if (s == nullptr) break;
    if (objects::count_free(s->objects, s->capacity) * 2 <= s->capacity) return s;
    s->state.store(span_state::unlisted, std::memory_order_relaxed);
    list(size_class, s, true);
  }
  if (span* s = take_listed(d, d.sparse)) return s;
  if (span* s = take_listed(d, d.listed)) return s;
  if (!fresh) return nullptr;
  {
    os::lock_guard guard(d.lock);
    if (span* s = d.pop_spare()) {
      s->state.store(span_state::held, std::memory_order_relaxed);
      spare_bytes_.fetch_sub(s->bytes(), std::memory_order_relaxed);
      return s;
    }
  }
  return make_span(size_class);
}

// The holder has seen all of the span.
void central::exhausted(unsigned size_class, span* s) {
  s->state.store(span_state::unlisted, std::memory_order_relaxed);
  full_fence();  // partner: the one in flush()
  if (objects::any_free(s->objects, s->capacity)) list(size_class, s, false);
}

void central::list(unsigned size_class, span* s, bool sparse) {
  object_depot& d = depots_[size_class];
  {
    os::lock_guard guard(d.lock);
    // Another thread may have listed it, or it may be another span by now: see span.hpp.
    if (s->state.load(std::memory_order_relaxed) != span_state::unlisted ||
        s->size_class.load(std::memory_order_relaxed) != size_class) {
      return;
    }
    s->state.store(span_state::listed, std::memory_order_relaxed);
    s->sparse = sparse;
    (sparse ? d.sparse : d.listed).push_front(s);
    full_fence();  // as above, for the flush that saw another state than `listed`
  }
  retire_if_empty(size_class, s);
}

void central::retire_if_empty(unsigned size_class, span* s) {
  object_depot& d = depots_[size_class];
  std::size_t spare = 0;
  {
    os::lock_guard guard(d.lock);
    if (s->state.load(std::memory_order_relaxed) != span_state::listed ||
        s->size_class.load(std::memory_order_relaxed) != size_class ||
        !objects::are_all_free(s->objects, s->capacity)) {
      return;
    }
    (s->sparse ? d.sparse : d.listed).remove(s);
    d.push_spare(s);
    spare = spare_bytes_.fetch_add(s->bytes(), std::memory_order_relaxed) + s->bytes();
  }
  if (spare >= spare_watch_bytes && watcher_ != nullptr) watcher_();
}

void central::release(unsigned size_class, held_span& held) {
  span* s = held.current;
  held = {};
  if (s == nullptr) return;
  s->state.store(span_state::unlisted, std::memory_order_relaxed);
  list(size_class, s, false);
}

// ---- objects
// ------------------------------------------------------------------------------------------------

std::size_t central::refill(unsigned size_class, held_span& held, magazine* m, std::size_t most) {
  struct part {
    span* from;
    std::size_t count;
  };
  part parts[spans_per_refill + 1];
  std::uint16_t indices[largest_magazine];
  std::size_t part_count = 0;
  std::size_t found = 0;
  const std::size_t size = class_info(size_class).size;

  while (found < most && part_count <= spans_per_refill) {
    if (held.current == nullptr) {
      held = {acquire(size_class, found == 0), 0};
      if (held.current == nullptr) break;
    }
    span* s = held.current;
    const std::size_t count =
        objects::find_free(s->objects, s->capacity, held.cursor, indices + found, most - found);
    // Taken at once: a span that is let go below must not show these as free.
    for (std::size_t i = found; i < found + count; ++i) {
      s->objects[indices[i]].store(0, std::memory_order_relaxed);
    }
    parts[part_count++] = {s, count};
    found += count;
    if (held.cursor == s->capacity) {
      held = {};
      exhausted(size_class, s);
    }
  }

  std::size_t slot = found;
  std::size_t next = 0;
  for (std::size_t p = 0; p < part_count; ++p) {
    const span* s = parts[p].from;
    for (std::size_t i = 0; i < parts[p].count; ++i, ++next, --slot) {
      const std::size_t index = indices[next];
      m->slots[slot] = reinterpret_cast<void*>(s->start + index * size);
      s->objects[index].store(static_cast<std::uint8_t>(slot), std::memory_order_relaxed);
    }
  }
  depots_[size_class].counters.refills.fetch_add(1, std::memory_order_relaxed);
  return found;
}

void central::flush(unsigned size_class, void* const* freed, std::size_t count) {
  struct touched {
    span* from;
    const objects::byte* array;
  };
  touched spans[largest_magazine];
  std::size_t span_count = 0;
  const std::size_t capacity = class_info(size_class).objects;

  // Spans of objects that come back in random order are rarely in the cache; ask for several at once.
  span* owners[largest_magazine];
  for (std::size_t i = 0; i < count; ++i) {
    owners[i] = map_.span_of(address_of(freed[i]));
    __builtin_prefetch(owners[i], 1);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uintptr_t address = address_of(freed[i]);
    span* s = owners[i];
    objects::byte& state = s->objects[index_in(s, address).index];
    if (TARN_UNLIKELY(state.load(std::memory_order_relaxed) == object_free)) {
      os::fatal("double free, seen when the block went back to its span", freed[i]);
    }
    // release: partner of objects::load_group.
    state.store(object_free, std::memory_order_release);
    if (span_count == 0 || spans[span_count - 1].from != s) spans[span_count++] = {s, s->objects};
  }
  full_fence();  // partner: the ones in exhausted() and list()
  for (std::size_t i = 0; i < span_count; ++i) {
    span* s = spans[i].from;
    const span_state state = s->state.load(std::memory_order_relaxed);
    if (state == span_state::unlisted) {
      list(size_class, s, false);
    } else if (state == span_state::listed && objects::are_all_free(spans[i].array, capacity)) {
      retire_if_empty(size_class, s);
    }
  }
  depots_[size_class].counters.flushes.fetch_add(1, std::memory_order_relaxed);
}

// In a short magazine the objects are large, and marking each costs little beside using it: one that is
// handed over is then seen by a second free at once. In a long one it is seen when the magazine goes back to
// its spans.
void central::mark(unsigned size_class, const magazine* m, bool away) {
  if (class_info(size_class).magazine > longest_marked) return;
  for (std::size_t slot = 1; slot <= m->count; ++slot) {
    const std::uintptr_t address = address_of(m->slots[slot]);
    const span* s = map_.span_of(address);
    s->objects[index_in(s, address).index].store(away ? object_away : static_cast<std::uint8_t>(slot),
                                                 std::memory_order_relaxed);
  }
}

magazine* central::take_full(unsigned size_class) {
  object_depot& d = depots_[size_class];
  magazine* m = nullptr;
  {
    os::lock_guard guard(d.lock);
    m = d.pop_full();
  }
  if (m == nullptr) return nullptr;
  d.counters.exchanges.fetch_add(1, std::memory_order_relaxed);
  mark(size_class, m, false);
  return m;
}

bool central::give_full(unsigned size_class, magazine* m) {
  object_depot& d = depots_[size_class];
  // A look without the lock: a full depot is common, and a wrong answer only costs a flush.
  if (d.full_count.load(std::memory_order_relaxed) >= most_full_magazines(size_class)) return false;
  mark(size_class, m, true);
  os::lock_guard guard(d.lock);
  d.push_full(m);
  d.counters.exchanges.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// ---- giving back
// --------------------------------------------------------------------------------------------

std::size_t central::release_spares(bool all) {
  std::size_t released = 0;
  for (object_depot& d : depots_) {
    span_list empty;
    {
      os::lock_guard guard(d.lock);
      for (std::uint32_t n = all ? d.spare_count : d.spare_low; n != 0; --n) {
        span* s = d.pop_spare();
        if (s == nullptr) break;
        s->state.store(span_state::purging, std::memory_order_relaxed);
        spare_bytes_.fetch_sub(s->bytes(), std::memory_order_relaxed);
        empty.push_back(s);
      }
      d.spare_low = d.spare_count;
    }
    while (span* s = empty.pop_front()) {
      released += s->bytes();
      destroy_span(s);
    }
  }
  return released;
}

void central::flush_idle_magazines(bool all) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    object_depot& d = depots_[c];
    magazine* idle = nullptr;
    {
      os::lock_guard guard(d.lock);
      for (std::uint32_t n = all ? d.full_count.load(std::memory_order_relaxed) : d.full_low; n != 0; --n) {
        magazine* m = d.pop_full();
        if (m == nullptr) break;
        m->next = idle;
        idle = m;
      }
      d.full_low = d.full_count.load(std::memory_order_relaxed);
    }
    while (idle != nullptr) {
      magazine* m = idle;
      idle = m->next;
      flush(c, m->bottom(), m->count);
      magazines_.deallocate(m);
    }
  }
}

std::size_t central::handover_bytes() {
  std::size_t bytes = 0;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    os::lock_guard guard(depots_[c].lock);
    for (const magazine* m = depots_[c].full; m != nullptr; m = m->next)
      bytes += m->count * std::size_t{class_info(c).size};
  }
  return bytes;
}

}  // namespace tarn
