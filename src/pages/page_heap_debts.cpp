// SPDX-License-Identifier: MIT
// page_heap's debts: memory that a thread of the program should purge, and leaves to the background thread. Until that has purged
// it, it is free for allocations, except a span that is too long for the page map to mark: that waits in transit_ without an owner,
// one at a time (docs/design/0045).
//
// owed_ is a number of bytes: whoever pays purges the ends of the longest spans, whichever they are then.
// Owner, thread safety and invariants: page_heap.hpp.
#include <algorithm>

#include "os/own_threads/thread.hpp"
#include "pages/page_heap.hpp"

namespace tarn {
namespace {

// So many owed bytes are purged before the background thread looks whether it must end.
constexpr std::size_t debt_step = 64 * mib;

}  // namespace

// After a refusal, tries again only when twice as many bytes are dirty.
void page_heap::purge_beyond(std::size_t keep) {
  const std::size_t dirty = dirty_bytes();
  std::size_t owed = owed_.load(std::memory_order_relaxed);
  if (dirty <= keep || dirty - keep <= owed || !limits_.may_try(dirty)) return;
  // If another thread has incurred a debt since, the next call finds what is still too much.
  if (owed_.compare_exchange_strong(owed, dirty - keep, std::memory_order_relaxed)) purge_owed_soon();
}

// As release_to_system(), in another thread if there is one and that has purged what came before: the memory of a program
// that frees spans faster than they are purged would grow without end.
void page_heap::purge_whole_soon(span* s) {
  bool waits = false;
  {
    os::lock_guard guard(lock_, *this);
    waits = transit_.pages() < s->pages;
    if (waits) {
      account_in_use(-static_cast<std::ptrdiff_t>(s->pages));
      s->state.store(span_state::purging, std::memory_order_relaxed);
      transit_.add(s, nullptr);
      has_waiting_span_.store(true, std::memory_order_relaxed);
    }
  }
  if (waits) {
    purge_owed_soon();
  } else {
    release_to_system(s);
  }
}

void page_heap::purge_owed_soon() {
  has_idle_memory_.store(true, std::memory_order_relaxed);  // there is work for a period of decay
  // Pages in transit do not count against a limit of backed bytes.
  if (limits_.most() != backing_limits::none || !is_taken_over(*this)) purge_owed(false);
}

std::size_t page_heap::purge_waiting(bool of_thread) {
  std::size_t total = 0;
  while (!(of_thread && os::background_thread_must_end())) {
    span* s = nullptr;
    {
      os::lock_guard guard(lock_, *this);
      s = transit_.take_over(os::this_thread());
      if (s == nullptr) has_waiting_span_.store(false, std::memory_order_relaxed);
    }
    if (s == nullptr) break;
    const std::size_t purged = purge_whole(s);
    total += purged;
    end_purge(s, purged);
  }
  return total;
}

std::size_t page_heap::purge_owed(bool of_thread) {
  std::size_t total = purge_waiting(of_thread);
  const auto must_end = [of_thread] { return of_thread && os::background_thread_must_end(); };
  std::size_t owed = owed_.exchange(0, std::memory_order_relaxed);
  while (owed != 0 && !must_end()) {
    const std::size_t dirty = dirty_bytes();
    const std::size_t step = std::min({owed, dirty, debt_step});
    const std::size_t purged = step != 0 ? purge_until(dirty - step) : 0;
    total += purged;
    limits_.note_kept_free(purged != 0 ? 0 : dirty);
    owed = purged != 0 ? owed - std::min(owed, purged) : 0;
  }
  if (owed != 0) owed_.fetch_add(owed, std::memory_order_relaxed);
  return total;
}

}  // namespace tarn
