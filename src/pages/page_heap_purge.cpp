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

}  // namespace

bool page_heap::is_due(page_backing backing, due which) {
  switch (backing) {
    case page_backing::clean: return false;
    case page_backing::young: return which == due::all;
    case page_backing::old: return true;
    case page_backing::stuck: return which != due::old;
  }
  return false;
}

// Opts the huge pages that the part of `s` overlaps out of huge pages, up to the borders of its reservation: behind a
// guard lies another mapping. Once for each huge page: the walk holds the lock that the program's threads wait for.
void page_heap::withdraw_huge(const span* s, std::uintptr_t start, std::size_t bytes) {
  if (!touch_.may_have_huge() || (!s->own_mapping && !map_.note_opted_out(start, bytes, true))) return;
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
  {
    os::lock_guard guard(lock_, *this);
    for (const span* at = s; at != nullptr; at = span_around(low - 1)) {
      low = at->start;
      if (low <= align_down(start, huge_page_size) || at->has_border(border_before)) break;
    }
    for (const span* at = s; at != nullptr; at = span_around(high)) {
      high = at->end();
      if (high >= align_up(start + bytes, huge_page_size) || at->has_border(border_behind)) break;
    }
  }
  touch_.withdraw_huge_within(start, bytes, low, high);
}

bool page_heap::purge_within(const span* s, std::uintptr_t start, std::size_t bytes) {
  if (!os::purge(reinterpret_cast<void*>(start), bytes)) return false;
  withdraw_huge(s, start, bytes);
  os::lock_guard guard(lock_, *this);
  returned_ += bytes;
  return true;
}

// Purges [first, last), pages of `s` that are all due. Pages that the system refuses to drop become stuck.
void page_heap::purge_run(const span* s, std::uintptr_t first, std::uintptr_t last, due which,
                          purge_result& result) {
  // Only whole system pages, which may be larger than tarn's.
  const std::size_t whole = os::page_unit();
  const std::uintptr_t from = align_up(first, whole);
  const std::uintptr_t to = std::max(align_down(last, whole), from);
  std::uintptr_t at = from;
  while (at < to) {
    // In a period of decay the remaining pages stay due and are purged in the next period.
    if (which != due::all && os::background_thread_must_end()) {
      result.aging = true;
      return;
    }
    const std::size_t bytes = std::min(to - at, purge_slice);
    if (!os::purge_free(reinterpret_cast<void*>(at), bytes)) break;
    TARN_PROBE(purge, at, bytes);
    if (!s->own_mapping) {
      withdraw_huge(s, at, bytes);
    } else if (to - from != s->bytes()) {  // a span purged from end to end is unmapped instead
      touch_.withdraw_huge_within(at, bytes, s->start, s->end());
    }
    map_.set_backing(at, bytes >> page_shift, page_backing::clean);
    result.bytes += bytes;
    at += bytes;
  }
  const auto stuck = [&](std::uintptr_t start, std::uintptr_t end) {
    if (start >= end) return;
    map_.set_backing(start, (end - start) >> page_shift, page_backing::stuck);
    result.refused = true;
  };
  stuck(first, std::min(from, last));
  stuck(at, last);
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

// Purges all pages of the span, whatever their backing.
std::size_t page_heap::purge_whole(span* s) {
  bool purged = is_whole(s);
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
  // One bin at a time. Pages freed meanwhile are young and wait for the next period.
  for (std::size_t bin = 0; bin < free_spans::bin_count; ++bin) {
    // They stay adjacent in transit_.
    span* s = nullptr;
    std::size_t left = 0;
    {
      os::lock_guard guard(lock_, *this);
      for (span* dirty = nullptr; (dirty = free_.dirty_bin(bin).front()) != nullptr; ++left) {
        remove_locked(dirty);
        begin_purge_locked(dirty);
        if (s == nullptr) s = dirty;
      }
    }
    for (; left != 0; --left) {
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

std::size_t page_heap::purge_until(std::size_t keep) {
  std::size_t total = 0;
  // No more than is dirty now: others may dirty pages meanwhile, and among them who listens to each purge
  // (os/memory_calls.hpp).
  const std::size_t at_first = dirty_bytes();
  for (std::size_t dirty = at_first; dirty > keep && total < at_first - keep; dirty = dirty_bytes()) {
    span* s = nullptr;
    {
      os::lock_guard guard(lock_, *this);
      s = free_.longest(free_spans::half::dirty);
      if (s == nullptr) break;
      remove_locked(s);
      begin_purge_locked(s);
    }
    const std::size_t purged = purge_pages(s, due::all, dirty - keep).bytes;
    total += purged;
    end_purge(s, purged);
    // The system refuses, or its pages are larger than the span: the search would find the same span again.
    if (purged == 0) break;
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
  transit_.set_lost(false);
  has_idle_memory_.store(true, std::memory_order_relaxed);
}

// Writes no part of a structure that an interrupted section may be changing, except the count: if the section was just
// changing it, the section's result stands.
void page_heap::forget_other_threads() {
  unlocked_users_ = 0;
  transit_.set_lost(true);
}

// After a refusal, tries again only when twice as many bytes are dirty.
void page_heap::purge_beyond(std::size_t keep) {
  const std::size_t dirty = dirty_bytes();
  if (limits_.may_try(dirty)) limits_.note_kept_free(purge_until(keep) != 0 ? 0 : dirty);
}

std::size_t page_heap::trim(std::size_t keep) {
  if (keep == 0) trims_.fetch_add(1, std::memory_order_relaxed);
  return purge_until(keep);
}

}  // namespace tarn
