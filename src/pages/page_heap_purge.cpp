// SPDX-License-Identifier: MIT
// page_heap's purging: by age, above a limit, and on request.
#include <algorithm>

#include "os/memory.hpp"
#include "os/own_threads/thread.hpp"
#include "os/probe.hpp"
#include "pages/page_heap.hpp"

namespace tarn {
namespace {

// The kernel holds its lock on the address space during one call: about 0.4 ms for this many bytes.
constexpr std::size_t purge_slice = 16 * mib;
// So many spans are taken at a time: meanwhile the program's threads wait for the lock, and then for the memory.
constexpr std::size_t spans_at_once = 32;

}  // namespace

bool page_heap::is_due(page_backing backing, due which) {
  switch (backing) {
    case page_backing::clean:
    case page_backing::dropped: return false;
    case page_backing::young: return which == due::all;
    case page_backing::old: return true;
    case page_backing::stuck: return which != due::old;
  }
  return false;
}

// Huge pages in [first, last) are being opted out. One write to each had backed all of it, also what was never handed out: such
// pages of `s` are old from now on, if `s` is free or this thread purges it. Their number is added to `noted`. Returns `s`,
// or what has become of that part of it: of a span that is too long to be partly dirty, the part is cut off.
span* page_heap::note_rest_of_huge_locked(span* s, std::uintptr_t first, std::uintptr_t last,
                                          std::size_t& noted) {
  const bool is_free = s->state.load(std::memory_order_relaxed) == span_state::free;
  if (!is_free && !transit_.is_of_thread(s, os::this_thread())) return s;
  for (;;) {
    const std::uintptr_t from = std::max(first, s->start);
    const std::uintptr_t to = std::min(last, s->end());
    std::uintptr_t at = from < to ? map_.first_clean(from, (to - from) >> page_shift) : to;
    if (at >= to) return s;
    if (is_free) {
      const bool too_long = s->pages > longest_mixed;
      if (too_long && !structs_.is_ready()) return s;
      remove_locked(s);
      if (too_long && from != s->start) {
        span* const front = s;
        s = cut_locked(front, (from - front->start) >> page_shift);
        coalesce_locked(front);
      }
      if (too_long && to != s->end()) coalesce_locked(cut_locked(s, (to - from) >> page_shift));
    }
    for (std::uintptr_t end = 0; at < to; at = map_.first_clean(end, (to - end) >> page_shift)) {
      end = map_.first_dirty(at, (to - at) >> page_shift);
      map_.set_backing(at, (end - at) >> page_shift, page_backing::old);
      s->dirty_pages += static_cast<std::uint32_t>((end - at) >> page_shift);
      noted += (end - at) >> page_shift;
    }
    if (is_free) coalesce_locked(s);  // a neighbour that it joins may have such pages, too
    has_idle_memory_.store(true, std::memory_order_relaxed);
  }
}

// Opts the huge pages that the part of `s` overlaps out of huge pages, up to the borders of its reservation: behind a
// guard lies another mapping. Once for each huge page: the walk holds the lock that the program's threads wait for. Returns how
// many bytes of free spans count as dirty from now on.
std::size_t page_heap::withdraw_huge(span* s, std::uintptr_t start, std::size_t bytes) {
  if (!touch_.may_have_huge()) return 0;
  std::size_t noted = 0;
  std::uintptr_t low = s->start;
  std::uintptr_t high = s->end();
  if (!s->own_mapping) {
    if (!map_.note_huge(start, bytes, false)) return 0;
    const std::uintptr_t first = align_down(start, huge_page_size);
    const std::uintptr_t last = align_up(start + bytes, huge_page_size);
    os::lock_guard guard(lock_, *this);
    note_rest_of_huge_locked(s, first, last, noted);
    for (bool ends = s->has_border(border_before); low > first && !ends;) {
      span* at = span_around(low - 1);
      if (at == nullptr) break;
      low = at->start;
      ends = at->has_border(border_before);
      at = note_rest_of_huge_locked(at, first, last, noted);
      low = std::min(low, at->start);
      ends = ends || at->has_border(border_before);
    }
    for (bool ends = s->has_border(border_behind); high < last && !ends;) {
      span* at = span_around(high);
      if (at == nullptr) break;
      high = at->end();
      ends = at->has_border(border_behind);
      at = note_rest_of_huge_locked(at, first, last, noted);
      high = std::max(high, at->end());
      ends = ends || at->has_border(border_behind);
    }
  }
  touch_.withdraw_huge_within(start, bytes, low, high);
  return noted << page_shift;
}

// What was backed ahead of the frontier is old from now on, if nobody comes there (`anyway`: in any case).
void page_heap::note_idle_ahead(bool anyway) {
  os::lock_guard guard(lock_, *this);
  const os::address_range ahead = touch_.idle_ahead_locked(anyway);
  span* const s = ahead.empty() || !structs_.is_ready() ? nullptr : free_.containing(ahead.start);
  if (s == nullptr) return;
  touch_.give_up_ahead_locked();
  std::size_t noted = 0;
  note_rest_of_huge_locked(s, ahead.start, ahead.end, noted);
}

bool page_heap::purge_within(span* s, std::uintptr_t start, std::size_t bytes) {
  if (!os::purge(reinterpret_cast<void*>(start), bytes)) return false;
  withdraw_huge(s, start, bytes);
  map_.begin_dropped(start, start + bytes);
  os::lock_guard guard(lock_, *this);
  returned_ += bytes;
  return true;
}

// [first, last), due pages of the free span `s`, in whole system pages, which may be larger than tarn's: with the pages of
// `s` that share its first or its last system page if none of them is young, else without that system page. Its pages stay
// due, and go when all of them are.
os::address_range page_heap::in_system_pages(const span* s, std::uintptr_t first, std::uintptr_t last) const {
  const auto has_young = [this](std::uintptr_t at, std::uintptr_t end) {
    while (at < end && map_.backing(at) != page_backing::young) at += page_size;
    return at < end;
  };
  const std::size_t unit = os::page_unit();
  const os::address_range outer{align_down(first, unit), align_up(last, unit)};
  const bool takes_first = outer.start >= s->start && !has_young(outer.start, first);
  const bool takes_last = outer.end <= s->end() && !has_young(last, outer.end);
  return {takes_first ? outer.start : align_up(first, unit), takes_last ? outer.end : align_down(last, unit)};
}

// Purges [first, last), pages of `s` that are all due. Pages that the system refuses to drop become stuck.
void page_heap::purge_run(span* s, std::uintptr_t first, std::uintptr_t last, due which,
                          purge_result& result) {
  const os::address_range run = in_system_pages(s, first, last);
  std::uintptr_t at = run.start;
  while (at < run.end) {
    // In a period of decay the remaining pages stay due and are purged in the next period.
    if (which != due::all && os::background_thread_must_end()) {
      result.aging = true;
      return;
    }
    const std::size_t bytes = std::min(run.end - at, purge_slice);
    if (!os::purge_free(reinterpret_cast<void*>(at), bytes)) break;
    TARN_PROBE(purge, at, bytes);
    // A span in a mapping of its own that is purged from end to end is unmapped instead.
    if (!s->own_mapping || run.bytes() != s->bytes()) result.noted += withdraw_huge(s, at, bytes);
    result.bytes += map_.count_dirty(at, bytes >> page_shift) << page_shift;
    map_.set_backing(at, bytes >> page_shift, page_backing::clean);
    at += bytes;
  }
  if (at >= run.end) return;
  map_.set_backing(at, (run.end - at) >> page_shift, page_backing::stuck);
  result.refused = true;
}

// Purges the due pages of a span in transit_, about `most` bytes of them, and makes its young pages old.
page_heap::purge_result page_heap::purge_pages(span* s, due which, std::size_t most) {
  purge_result result;
  std::uintptr_t at = s->start;
  while (at < s->end() && result.bytes < most) {
    const std::uintptr_t run = at;
    // Ends where a huge page ends: purging a part of one would break it.
    const std::size_t left = most - result.bytes;
    const std::uintptr_t end =
        left < s->end() - run ? std::min(align_up(run + left, huge_page_size), s->end()) : s->end();
    while (at < end && is_due(map_.backing(at), which)) at += page_size;
    if (at != run) {
      purge_run(s, run, at, which, result);
      continue;
    }
    if (map_.backing(at) == page_backing::young) {
      map_.set_backing(at, 1, page_backing::old);
      result.aging = true;
    }
    at += page_size;
  }
  s->dirty_pages = static_cast<std::uint32_t>(map_.count_dirty(s->start, s->pages));
  return result;
}

// Purges all pages of the span, whatever their backing. One that does not consist of whole system pages is left to decay.
std::size_t page_heap::purge_whole(span* s) {
  if (!is_whole(s)) {
    set_span_backing(s, page_backing::young);
    has_idle_memory_.store(true, std::memory_order_relaxed);
    return 0;
  }
  bool purged = true;
  for (std::uintptr_t at = s->start; purged && at < s->end(); at += purge_slice) {
    const std::size_t bytes = std::min(s->end() - at, purge_slice);
    purged = os::purge_free(reinterpret_cast<void*>(at), bytes);
    if (purged) TARN_PROBE(purge, at, bytes);
  }
  if (purged && !s->own_mapping) withdraw_huge(s, s->start, s->bytes());
  set_span_backing(s, purged ? page_backing::clean : page_backing::stuck);
  return purged ? s->bytes() : 0;
}

std::size_t page_heap::release_to_system(span* s) {
  {
    os::lock_guard guard(lock_, *this);
    account_in_use(-static_cast<std::ptrdiff_t>(s->pages));
    begin_purge_locked(s);
  }
  const std::size_t purged = purge_whole(s);
  end_purge(s, purged);
  return purged;
}

// Puts `s`, which is in no list of free spans, into transit_. Until end_purge() only the caller uses its pages and
// their backing.
void page_heap::begin_purge_locked(span* s) {
  s->state.store(span_state::purging, std::memory_order_relaxed);
  transit_.add(s, os::this_thread());
}

// Makes `s` free. Returns the span that followed it in transit_.
span* page_heap::end_purge(span* s, std::size_t purged) {
  departure idle;
  span* next = nullptr;
  {
    os::lock_guard guard(lock_, *this);
    next = s->next;
    transit_.remove(s);
    returned_ += purged;
    idle = free_locked(s);
  }
  unmap(idle);
  return next;
}

// What becomes free from now on belongs to the next walk.
void page_heap::begin_walk() {
  os::lock_guard guard(lock_, *this);
  ++walk_;
}

// Takes some of the dirty free spans of a bin, which have not become free during this walk, into transit_, where they stay
// adjacent: the oldest first, which are at the end. Returns the first one; null: none is left.
span* page_heap::begin_purge_of_bin(std::size_t bin, std::size_t& count) {
  span* first = nullptr;
  os::lock_guard guard(lock_, *this);
  for (count = 0; count != spans_at_once; ++count) {
    span* const oldest = free_.dirty_bin(bin).back();
    if (oldest == nullptr || oldest->list == walk_) break;
    remove_locked(oldest);
    begin_purge_locked(oldest);
    if (first == nullptr) first = oldest;
  }
  return first;
}

bool page_heap::age() {
  const bool tries = stuck_pages_.is_over();
  bool refused = false;
  bool aging = false;
  const std::uint32_t trims = trims_.load(std::memory_order_relaxed);
  const auto what = [this, trims, tries] {
    if (trims_.load(std::memory_order_relaxed) != trims) return due::all;
    return tries ? due::old_and_stuck : due::old;
  };
  has_idle_memory_.store(false, std::memory_order_relaxed);
  note_idle_ahead(false);
  begin_walk();
  for (std::size_t bin = 0, left = 0; bin < free_spans::bin_count; bin += left == 0 ? 1 : 0) {
    span* s = begin_purge_of_bin(bin, left);
    for (std::size_t i = 0; i < left; ++i) {
      const purge_result result =
          os::background_thread_must_end() ? purge_result{.aging = true} : purge_pages(s, what(), SIZE_MAX);
      refused = refused || result.refused;
      aging = aging || result.aging;
      s = end_purge(s, result.bytes);
    }
  }
  age_structs();
  tries ? stuck_pages_.end_period_with_try(refused) : stuck_pages_.end_period();
  if (aging) has_idle_memory_.store(true, std::memory_order_relaxed);
  return aging;
}

// Of `s`, which is in no list: the end that has at least `bytes` bytes and begins with a huge page. What is before it stays
// free, for requests that come meanwhile. Partly dirty spans are not long, and stay whole.
span* page_heap::cut_end_locked(span* s, std::size_t bytes) {
  if (s->dirty_pages != s->pages || s->bytes() <= bytes || !structs_.is_ready()) return s;
  const std::uintptr_t cut = align_down(s->end() - bytes, huge_page_size);
  if (cut <= s->start) return s;
  span* const end = cut_locked(s, (cut - s->start) >> page_shift);
  coalesce_locked(s);
  return end;
}

std::size_t page_heap::purge_until(std::size_t keep) {
  std::size_t total = 0;
  // No more than is dirty now, or noted: others may dirty pages meanwhile, and among them who listens to each purge
  // (os/memory_calls.hpp).
  std::size_t at_first = dirty_bytes();
  for (std::size_t dirty = at_first; dirty > keep && total < at_first - keep; dirty = dirty_bytes()) {
    span* s = nullptr;
    {
      os::lock_guard guard(lock_, *this);
      s = free_.longest(free_spans::half::dirty);
      if (s == nullptr) break;
      remove_locked(s);
      s = cut_end_locked(s, dirty - keep);
      begin_purge_locked(s);
    }
    const purge_result purged = purge_pages(s, due::all, dirty - keep);
    total += purged.bytes;
    at_first += purged.noted;
    end_purge(s, purged.bytes);
    if (purged.bytes != 0) continue;
    // The search would find the same span again. Its dirty pages are less than a system page, or the system refuses.
    return purged.refused ? total : total + purge_bins(at_first - keep - total);
  }
  return total;
}

// Purges about `most` bytes, of the longest spans first.
std::size_t page_heap::purge_bins(std::size_t most) {
  std::size_t total = 0;
  begin_walk();
  for (std::size_t bin = free_spans::bin_count, left = 0; bin != 0 && total < most;
       bin -= left == 0 ? 1 : 0) {
    span* s = begin_purge_of_bin(bin - 1, left);
    for (std::size_t i = 0; i < left; ++i) {
      const std::size_t purged = total < most ? purge_pages(s, due::all, most - total).bytes : 0;
      total += purged;
      s = end_purge(s, purged);
    }
  }
  return total;
}

// The threads that were purging do not exist in the child, except the calling thread, which continues when the signal
// handler that forked returns. How far the others had come is unknown, and for a span in release_to_system() the
// backing is not yet set: purge them completely. A span that they were unmapping may be unmapped already, and its
// addresses in use for something else: give it up.
void page_heap::after_fork_in_child() {
  for (span* s = transit_.front(); s != nullptr;) {
    if (s->owner.load(std::memory_order_relaxed) == os::this_thread()) {
      s = s->next;
      continue;
    }
    if (s->is_retired()) {
      span* const lost = s;
      s = s->next;
      os::lock_guard guard(lock_, *this);
      put_border_beside_locked(lost->start - 1, border_behind);
      put_border_beside_locked(lost->end(), border_before);
      end_unmap_locked(lost);
    } else {
      purge_whole(s);
      s = end_purge(s, 0);
    }
  }
  unlocked_users_ = 0;
  owed_.store(0, std::memory_order_relaxed);
  transit_.set_lost(false);
  has_idle_memory_.store(true, std::memory_order_relaxed);
  touch_.begin_child_locked(in_use_bytes());
}

// Writes no part of a structure that an interrupted section may be changing, except the count: if the section was just
// changing it, the section's result stands.
void page_heap::forget_other_threads() {
  unlocked_users_ = 0;
  owed_.store(0, std::memory_order_relaxed);
  transit_.set_lost(true);
}

std::size_t page_heap::trim(std::size_t keep) {
  if (keep == 0) trims_.fetch_add(1, std::memory_order_relaxed);
  const std::size_t owed = purge_owed(false);
  if (keep == 0) note_idle_ahead(true);
  const std::size_t purged = purge_until(keep);
  // What another thread is purging is back when this returns, unless that takes very long.
  const auto others_purge = [this] {
    os::lock_guard guard(lock_, *this);
    return transit_.may_return();
  };
  int waited = 0;
  while (keep == 0 && others_purge() && wait_a_moment(waited)) continue;
  return owed + purged;
}

}  // namespace tarn
