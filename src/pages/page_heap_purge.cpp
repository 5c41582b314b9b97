// SPDX-License-Identifier: MIT
// What page_heap gives back to the system: by age, beyond a limit, and on request.
#include <algorithm>

#include "os/memory.hpp"
#include "os/thread.hpp"
#include "pages/page_heap.hpp"

namespace tarn {
namespace {

// The system's lock on the address space is held for as long as one call lasts: about 0.4 ms for so much.
constexpr std::size_t purge_slice = 16 * mib;

}  // namespace

// Purges the old pages of a span in purging_ (and the young ones too, if asked); makes the others old.
std::size_t page_heap::purge_pages(span* s, bool also_young) {
  const std::size_t system_page = os::page_size();
  std::size_t purged = 0;
  std::uintptr_t at = s->start;
  while (at < s->end()) {
    const page_backing backing = map_.backing(at);
    const bool due = backing == page_backing::old || (also_young && backing == page_backing::young);
    if (!due) {
      if (backing == page_backing::young) map_.set_backing(at, 1, page_backing::old);
      at += page_size;
      continue;
    }
    std::uintptr_t run_end = at + page_size;
    while (run_end < s->end() && (map_.backing(run_end) == page_backing::old ||
                                  (also_young && map_.backing(run_end) == page_backing::young))) {
      run_end += page_size;
    }
    // Only whole pages of the system, which may be larger than ours.
    const std::uintptr_t first = align_up(at, std::max(system_page, page_size));
    const std::uintptr_t last = align_down(run_end, std::max(system_page, page_size));
    if (first < last) touch_.before_purge(first, last - first);
    for (std::uintptr_t slice = first; slice < last; slice += purge_slice) {
      // By age, the run's other pages stay old and go in the next period.
      if (!also_young && os::background_thread_must_end()) break;
      const std::size_t bytes = std::min(last - slice, purge_slice);
      if (!os::purge(reinterpret_cast<void*>(slice), bytes)) break;
      map_.set_backing(slice, bytes >> page_shift, page_backing::clean);
      purged += bytes;
    }
    at = run_end;
  }
  s->dirty_pages = static_cast<std::uint32_t>(map_.count_dirty(s->start, s->pages));
  return purged;
}

// The same for a span of which nothing is to stay, whatever the backing of its pages says.
std::size_t page_heap::purge_whole(span* s) {
  touch_.before_purge(s->start, s->bytes());
  bool purged = is_whole(s);
  for (std::uintptr_t at = s->start; purged && at < s->end(); at += purge_slice) {
    purged = os::purge(reinterpret_cast<void*>(at), std::min(s->end() - at, purge_slice));
  }
  mark(s, purged ? page_backing::clean : page_backing::young);
  return purged ? s->bytes() : 0;
}

std::size_t page_heap::give_back(span* s) {
  {
    os::lock_guard guard(lock_);
    account_in_use(-static_cast<std::ptrdiff_t>(s->pages));
    begin_purge_locked(s);
  }
  const std::size_t purged = purge_whole(s);
  os::lock_guard guard(lock_);
  end_purge_locked(s, purged);
  return purged;
}

// `s` is in no list of free spans. Until end_purge_locked() its pages and their backing are the caller's alone.
void page_heap::begin_purge_locked(span* s) {
  s->state.store(span_state::purging, std::memory_order_relaxed);
  s->owner.store(os::this_thread(), std::memory_order_relaxed);
  purging_pages_ += s->pages;
  purging_.push_back(s);
}

// Returns the span behind it in purging_.
span* page_heap::end_purge_locked(span* s, std::size_t purged) {
  span* const next = s->next;
  purging_.remove(s);
  s->owner.store(nullptr, std::memory_order_relaxed);
  purging_pages_ -= s->pages;
  returned_ += purged;
  coalesce_locked(s);
  return next;
}

bool page_heap::age() {
  // The spans are taken out one bin at a time; what is freed meanwhile is young and waits for the next
  // period.
  for (std::size_t bin = 0; bin < free_spans::bin_count; ++bin) {
    // What is put into purging_ under one lock stays together there: others add behind it and remove their own.
    span* s = nullptr;
    std::size_t left = 0;
    {
      os::lock_guard guard(lock_);
      for (span* dirty = nullptr; (dirty = free_.dirty_bin(bin).front()) != nullptr; ++left) {
        remove_locked(dirty);
        begin_purge_locked(dirty);
        if (s == nullptr) s = dirty;
      }
    }
    for (; left != 0; --left) {
      const std::size_t purged = os::background_thread_must_end() ? 0 : purge_pages(s, false);
      os::lock_guard guard(lock_);
      s = end_purge_locked(s, purged);
    }
  }
  return dirty_bytes() != 0;
}

std::size_t page_heap::purge_until(std::size_t keep) {
  std::size_t total = 0;
  while (dirty_bytes() > keep) {
    span* s = nullptr;
    {
      os::lock_guard guard(lock_);
      s = free_.longest(free_spans::half::dirty);
      if (s == nullptr) break;
      remove_locked(s);
      begin_purge_locked(s);
    }
    const std::size_t purged = purge_pages(s, true);
    total += purged;
    os::lock_guard guard(lock_);
    end_purge_locked(s, purged);
    // The system refuses, or its pages are larger than the span: the next one would be the same again.
    if (purged == 0) break;
  }
  return total;
}

// The threads that were purging do not exist here, unless it is this one, which goes on when the signal handler that has
// forked returns. Nobody knows how far the others had come, and of a span that was given back at once, the backing says
// nothing yet.
void page_heap::after_fork_in_child() {
  for (span* s = purging_.front(); s != nullptr;) {
    if (s->owner.load(std::memory_order_relaxed) == os::this_thread()) {
      s = s->next;
      continue;
    }
    purge_whole(s);
    os::lock_guard guard(lock_);
    s = end_purge_locked(s, 0);
  }
}

std::size_t page_heap::trim(std::size_t keep) { return purge_until(keep); }

}  // namespace tarn
