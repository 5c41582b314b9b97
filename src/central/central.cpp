// SPDX-License-Identifier: MIT
#include "central/central.hpp"

#include "central/objects.hpp"
#include "os/report.hpp"

namespace tarn {
namespace {

// What one class may keep in full magazines for hand-over.
constexpr std::size_t handover_limit = 128 * kib;
// Objects up to this size are as good as always written from end to end.
constexpr std::size_t largest_dense = 8 * kib;
// A refill looks at no more spans than this.
constexpr std::size_t spans_per_refill = 16;

std::size_t most_full_magazines(unsigned size_class) {
  const auto& info = class_info(size_class);
  const std::size_t bytes = std::size_t{info.size} * info.magazine;
  return bytes >= handover_limit / 2 ? 2 : handover_limit / bytes;
}

}  // namespace

// ---- spans ----

span* central::take_pages(std::size_t pages, page_heap::use use) {
  // Warm memory first, empty spans of other classes included, before the resident set grows.
  if (span* s = heap_.allocate(pages, 1, span_state::cut, page_heap::source::warm, use)) return s;
  if (spare_bytes() >= pages << page_shift && release_spares(true) != 0) {
    if (span* s = heap_.allocate(pages, 1, span_state::cut, page_heap::source::warm, use)) return s;
  }
  return heap_.allocate(pages, 1, span_state::cut, page_heap::source::any, use);
}

bool central::add_span(unsigned size_class) {
  const auto& info = class_info(size_class);
  const bool apart = objects::array_bytes(info.objects) > span::inline_bytes;
  void* array = apart ? arrays_[size_class].allocate(metadata_) : nullptr;
  if (apart && array == nullptr) return false;
  span* s = take_pages(info.span_pages,
                       info.size <= largest_dense ? page_heap::use::dense : page_heap::use::sparse);
  if (s == nullptr) {
    if (apart) arrays_[size_class].deallocate(array);
    return false;
  }
  s->objects = apart ? static_cast<objects::byte*>(array) : s->inline_objects;
  s->reciprocal = info.reciprocal;
  s->capacity = info.objects;
  s->size_class = static_cast<std::uint8_t>(size_class);
  s->free_objects = 0;
  s->list = object_depot::unborn;
  objects::fill_free(s->objects, s->capacity);
  map_.set_objects(s);
  object_depot& d = depots_[size_class];
  d.counters.spans_made.fetch_add(1, std::memory_order_relaxed);
  os::lock_guard guard(d.lock);
  d.count(s, s->capacity);
  spare_bytes_.fetch_add(s->bytes(), std::memory_order_relaxed);
  return true;
}

// The span is in no list and none of its objects is in use.
void central::destroy_span(span* s) {
  const std::size_t size_class = s->size_class;
  depots_[size_class].counters.spans_freed.fetch_add(1, std::memory_order_relaxed);
  map_.clear_classes(s);
  objects::byte* array = s->objects;
  s->size_class = 0;
  s->objects = nullptr;
  const bool apart = array != s->inline_objects;
  heap_.deallocate(s);
  if (apart) arrays_[size_class].deallocate(array);
}

// ---- objects ----

// From the class's spans into m->slots[1 …], the last found lowest. The fullest spans are used up first, so
// that the others run empty and serve other classes.
std::size_t central::take_objects(unsigned size_class, magazine* m, std::size_t most) {
  std::uint16_t indices[largest_magazine];
  const std::size_t size = class_info(size_class).size;
  object_depot& d = depots_[size_class];
  std::size_t found = 0;
  os::lock_guard guard(d.lock);
  for (std::size_t visited = 0; found < most && visited < spans_per_refill; ++visited) {
    span* s = d.best();
    // A wholly free span is broken into only for the first object.
    if (s == nullptr || (s->list == object_depot::spare_list && found != 0)) break;
    if (s->list == object_depot::spare_list) spare_bytes_.fetch_sub(s->bytes(), std::memory_order_relaxed);
    const std::size_t count = objects::find_free(s->objects, s->capacity, indices, most - found);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t slot = most - found - i;
      m->slots[slot] = reinterpret_cast<void*>(s->start + indices[i] * size);
      s->objects[indices[i]].store(static_cast<std::uint8_t>(slot), std::memory_order_relaxed);
    }
    found += count;
    d.count(s, -static_cast<int>(count));
  }
  d.review(size);
  return found;
}

std::size_t central::refill(unsigned size_class, magazine* m, std::size_t most) {
  std::size_t found = take_objects(size_class, m, most);
  while (found == 0 && add_span(size_class)) found = take_objects(size_class, m, most);
  if (found != 0 && found != most) {
    // They lie at the upper end; each object's byte has to name its new slot.
    const std::size_t gap = most - found;
    for (std::size_t slot = 1; slot <= found; ++slot) {
      void* const object = m->slots[slot] = m->slots[slot + gap];
      const span* s = map_.span_of(address_of(object));
      s->objects[index_in(s, address_of(object)).index].store(static_cast<std::uint8_t>(slot),
                                                              std::memory_order_relaxed);
    }
    for (std::size_t slot = found + 1; slot <= most; ++slot) m->slots[slot] = nullptr;
  }
  depots_[size_class].counters.refills.fetch_add(1, std::memory_order_relaxed);
  return found;
}

void central::flush(unsigned size_class, void* const* freed, std::size_t count) {
  // Spans of objects that come back in random order are rarely in the cache; ask for several at once.
  span* owners[largest_magazine];
  for (std::size_t i = 0; i < count; ++i) {
    owners[i] = map_.span_of(address_of(freed[i]));
    __builtin_prefetch(owners[i], 1);
  }
  for (std::size_t i = 0; i < count; ++i) {
    objects::byte& state = owners[i]->objects[index_in(owners[i], address_of(freed[i])).index];
    if (TARN_UNLIKELY(state.load(std::memory_order_relaxed) == object_free)) {
      os::fatal("double free, seen when the block went back to its span", freed[i]);
    }
    // release: partner of objects::load_group. What the program wrote to the object happened before.
    state.store(object_free, std::memory_order_release);
  }
  object_depot& d = depots_[size_class];
  {
    os::lock_guard guard(d.lock);
    for (std::size_t i = 0; i < count;) {
      span* const s = owners[i];
      int same = 0;
      for (; i < count && owners[i] == s; ++i) ++same;
      if (d.count(s, same)) spare_bytes_.fetch_add(s->bytes(), std::memory_order_relaxed);
    }
    d.review(class_info(size_class).size);
  }
  d.counters.flushes.fetch_add(1, std::memory_order_relaxed);
}

// Objects in a magazine that no thread has are marked, so that a second free of one is seen at once. This costs a
// few cycles an object, where everything else of a hand-over costs a few an object's share of a lock.
void central::mark(const magazine* m, bool away) {
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
  mark(m, false);
  return m;
}

bool central::give_full(unsigned size_class, magazine* m) {
  object_depot& d = depots_[size_class];
  // A look without the lock: a full depot is common, and a wrong answer only costs a flush.
  if (d.full_count.load(std::memory_order_relaxed) >= most_full_magazines(size_class)) return false;
  mark(m, true);
  os::lock_guard guard(d.lock);
  d.push_full(m);
  d.counters.exchanges.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// ---- giving back ----

std::size_t central::release_spares(bool all) {
  std::size_t released = 0;
  for (object_depot& d : depots_) {
    span_list empty;
    if (spare_bytes() == 0) break;
    {
      os::lock_guard guard(d.lock);
      for (std::uint32_t n = all ? d.spare_count : d.spare_low; n != 0; --n) {
        span* s = d.take_spare();
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
