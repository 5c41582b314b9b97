// SPDX-License-Identifier: MIT
// page_heap: free address space that goes back to the system: large blocks' own mappings when they are idle, and parts
// of reservations when a request finds no address space although enough is free.
//
// A span that is to be unmapped leaves F, the page map and first_touch under the lock: from the moment it is unmapped,
// another thread may map something there. Until the system has answered it is in transit_, in state no_memory, where
// other threads that need memory wait for it. If the system refuses, it becomes free again.
//
// Owner, thread safety and invariants: page_heap.hpp.
#include <algorithm>

#include "os/memory.hpp"
#include "pages/page_heap.hpp"

namespace tarn {
namespace {

// Spans in mappings of their own that are shorter stay mapped between spans in use: each hole would cost a mapping.
constexpr std::size_t shortest_hole = 512 * kib;
// Where not one page can be mapped, so much of a reservation is unmapped at a time, and in all, until one can be.
constexpr std::size_t trial_bytes = huge_page_size;
constexpr std::size_t most_tried = 16 * mib;

// Turns free memory into a guard; its content goes, since the guard becomes memory again if the reservation becomes
// longer.
// False: the range is empty, or the system refuses, and there is no guard.
bool make_guard(std::uintptr_t start, std::uintptr_t end) {
  if (end <= start) return false;
  void* const memory = reinterpret_cast<void*>(start);
  if (os::purge_free(memory, end - start) && os::forbid_access(memory, end - start)) return true;
  os::release(memory, end - start);
  return false;
}

}  // namespace

// Whether the addresses on at least one side of the span do not belong to the heap, so that unmapping it splits no
// mapping.
bool page_heap::is_at_border(const span* s) const {
  return span_around(s->start - 1) == nullptr || span_around(s->end()) == nullptr;
}

// Whether the system has refused to drop any page of the span. It may unmap it all the same, as after mlockall.
bool page_heap::is_stuck(const span* s) const {
  std::uintptr_t at = s->start;
  while (at < s->end() && map_.backing(at) == page_backing::stuck) at += page_size;
  return at == s->end();
}

// Makes `s`, which is in no list, free and joins it with its neighbours. If the result need not stay mapped, returns it
// for unmap().
page_heap::departure page_heap::free_locked(span* s) {
  coalesce_locked(s);
  if (!s->own_mapping || (s->dirty_pages != 0 && !is_stuck(s)) || !is_whole(s)) return {};
  if (s->bytes() < shortest_hole && !is_at_border(s)) return {};
  return begin_unmap_locked(s, {s->start, s->end(), s->start, s->end()});
}

// Moves the free span `s`, which is `range`, to transit_. The caller calls unmap() without the lock.
page_heap::departure page_heap::begin_unmap_locked(span* s, const hole& range) {
  departure leaving{s, range, s->end() == newest_end_};
  remove_locked(s);
  begin_purge_locked(s);
  s->state.store(span_state::no_memory, std::memory_order_relaxed);
  if (s->dirty_pages != 0) map_.set_backing(s->start, s->pages, page_backing::clean);
  map_.set_span(s->start, nullptr);
  map_.set_span(s->end() - 1, nullptr);
  // Before the system can give the place to another thread, which adds it.
  ranges_.remove_locked(s->start, s->end());
  if (!s->own_mapping) touch_.withhold_locked(s->start, s->end());
  first_use_.unmapped_locked(s->start, s->end());
  if (leaving.is_newest) newest_end_ = 0;
  return leaving;
}

// The span, in transit_, has left the heap.
void page_heap::end_unmap_locked(span* s) {
  transit_.remove(s);
  reserved_ -= s->pages;
  structs_.put(s);
}

// If `address` belongs to a span, it now has these borders.
void page_heap::put_border_beside_locked(std::uintptr_t address, std::uint8_t borders) {
  if (span* const s = span_around(address)) s->borders |= borders;
}

// The system refuses to unmap the span: purges it and makes it free again.
void page_heap::put_back(const departure& leaving) {
  span* const s = leaving.s;
  const std::size_t dirty = s->dirty_pages;
  const bool purged = dirty == 0 || os::purge_free(reinterpret_cast<void*>(s->start), s->bytes());
  set_span_backing(s, purged ? page_backing::clean : page_backing::stuck);
  if (!purged) has_idle_memory_.store(true, std::memory_order_relaxed);
  os::lock_guard guard(lock_, *this);
  if (purged) returned_ += dirty << page_shift;
  transit_.remove(s);
  ranges_.add_locked(s->start, s->end());
  if (leaving.is_newest && newest_end_ == 0) newest_end_ = s->end();
  coalesce_locked(s);
}

// False: the system refuses; the span is free again.
bool page_heap::unmap(const departure& leaving) {
  span* const s = leaving.s;
  if (s == nullptr) return true;
  const hole& range = leaving.range;
  if (!os::release(reinterpret_cast<void*>(range.unmapped_start),
                   range.unmapped_end - range.unmapped_start)) {
    put_back(leaving);
    return false;
  }
  const bool guarded_before = make_guard(range.start, range.unmapped_start);
  const bool guarded_behind = make_guard(range.unmapped_end, range.end);
  os::lock_guard guard(lock_, *this);
  returned_ += std::size_t{s->dirty_pages} << page_shift;
  end_unmap_locked(s);
  // What is left before the hole can become longer again.
  if (guarded_before && leaving.is_newest && newest_end_ == 0) newest_end_ = range.start;
  if (range.start < range.unmapped_start)
    put_border_beside_locked(range.start - 1, guarded_before ? all_behind : border_behind);
  if (range.unmapped_end < range.end)
    put_border_beside_locked(range.end, guarded_behind ? all_before : border_before);
  return true;
}

// Address space is short: unmaps free spans in mappings of their own even if they are dirty, which also frees memory
// that the system refuses to purge. Returns the bytes unmapped.
std::size_t page_heap::unmap_idle() {
  constexpr std::size_t most = 16;
  std::size_t unmapped = 0;
  for (;;) {
    departure idle[most];
    std::size_t count = 0;
    {
      os::lock_guard guard(lock_, *this);
      for (std::size_t bin = free_spans::bin_of(shortest_hole >> page_shift);
           bin < free_spans::bin_count && count < most; ++bin) {
        for (span *s = free_.dirty_bin(bin).front(), *next = nullptr; s != nullptr && count < most;
             s = next) {
          next = s->next;
          if (!s->own_mapping || !is_whole(s)) continue;
          idle[count++] = begin_unmap_locked(s, {s->start, s->end(), s->start, s->end()});
        }
      }
    }
    std::size_t refused = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t bytes = idle[i].range.bytes();
      if (unmap(idle[i]))
        unmapped += bytes;
      else
        ++refused;
    }
    if (count < most || refused != 0) return unmapped;
  }
}

// ---- parts of reservations ----

// The part of the free span `s` that can be unmapped; of 0 bytes if there is none. A neighbour that another thread is
// unmapping may get its guard at any moment, on either side of the border: beside it, nothing is unmapped.
hole page_heap::hole_beside_neighbours(const span* s) const {
  const hole h = hole_in(s);
  if (h.bytes() == 0) return h;
  const bool known_before = s->has_border(border_before) || span_around(s->start - 1) != nullptr;
  const bool known_behind = s->has_border(border_behind) || span_around(s->end()) != nullptr;
  return known_before && known_behind ? h : hole{};
}

// Calls visit(span, hole) for the holes that can be made in free spans, roughly from the longest to the shortest, until
// it returns false.
template <class Visit>
void page_heap::visit_holes_locked(Visit visit) const {
  for (std::size_t bin = free_spans::bin_count; bin-- > free_spans::bin_of(shortest_hole >> page_shift);) {
    for (const auto half : {free_spans::half::dirty, free_spans::half::clean}) {
      for (span* s = free_.bin(half, bin).front(); s != nullptr; s = s->next) {
        if (s->own_mapping) continue;
        const hole h = hole_beside_neighbours(s);
        if (h.bytes() != 0 && !visit(s, h)) return;
      }
    }
  }
}

// The sum of all holes that can be made, as far as it is less than `enough`.
std::size_t page_heap::most_unmappable(std::size_t enough) {
  std::size_t bytes = 0;
  os::lock_guard guard(lock_, *this);
  visit_holes_locked([&](const span*, const hole& h) {
    bytes += h.bytes();
    return bytes < enough;
  });
  return bytes;
}

// `most`: a number of huge pages. Of a longer hole only so many are made, and what lies before the first one.
page_heap::departure page_heap::begin_longest_locked(std::size_t most) {
  span* s = nullptr;
  hole found;
  visit_holes_locked([&](span* candidate, const hole& h) {
    s = candidate;
    found = h;
    return false;
  });
  if (s == nullptr) return {};
  remove_locked(s);
  if (const std::uintptr_t first = align_up(found.start, huge_page_size);
      first < found.end && most < found.end - first) {
    coalesce_locked(cut_locked(s, (first + most - s->start) >> page_shift));
    found = hole_in(s);
  }
  if (found.start != s->start) {
    span* const front = s;
    s = cut_locked(front, (found.start - front->start) >> page_shift);
    coalesce_locked(front);
  }
  if (found.end != s->end()) coalesce_locked(cut_locked(s, found.bytes() >> page_shift));
  insert_locked(s);
  return begin_unmap_locked(s, found);
}

// No address space is left for a request of `bytes`: unmaps free parts of reservations, the longest first, until as
// many bytes are unmapped. Does nothing if that would not be enough. Returns the bytes unmapped; 0 also if nothing can
// be mapped after that: the program has lowered its limit, or a sandbox forbids mmap, and what is left of the heap is
// all there is.
std::size_t page_heap::unmap_free(std::size_t bytes, int& waited) {
  const std::size_t most = most_unmappable(bytes);
  if (most == 0 || (most < bytes && !os::can_reserve(bytes - most))) return 0;
  bool blocked = !os::can_reserve(os::system_page_size());
  if (blocked && unmapping_is_vain_.load(std::memory_order_relaxed)) return 0;
  std::size_t at_once = blocked ? trial_bytes : SIZE_MAX;
  std::size_t unmapped = 0;
  while ((unmapped < bytes || blocked) && (unmapped < most_tried || !blocked)) {
    if (!ensure_span_structs()) break;
    departure leaving;
    bool in_use = false;
    {
      os::lock_guard guard(lock_, *this);
      if (!structs_.is_ready()) continue;
      in_use = unlocked_users_ != 0;
      if (!in_use) leaving = begin_longest_locked(at_once);
    }
    if (in_use && wait_a_moment(waited)) continue;
    if (leaving.s == nullptr) break;
    const std::size_t length = leaving.range.bytes();
    if (unmap(leaving)) {
      unmapped += length;
      blocked = blocked && !os::can_reserve(os::system_page_size());
      if (!blocked) at_once = SIZE_MAX;
    } else if (at_once != SIZE_MAX) {
      // A part splits a mapping, for which the table may have no room; the whole may split none.
      at_once = SIZE_MAX;
    } else {
      break;
    }
  }
  if (unmapped != 0) unmapping_is_vain_.store(blocked, std::memory_order_relaxed);
  return blocked ? 0 : unmapped;
}

}  // namespace tarn
