// SPDX-License-Identifier: MIT
// Idle buffers: kept within the budget and for the idle time, got ready ahead of demand, given to the system or to the
// page heap.
#include <algorithm>

#include "background/decay.hpp"
#include "engine/engine.hpp"
#include "fronts/buffers/buffer_core.hpp"
#include "os/clock.hpp"
#include "os/memory_marks.hpp"

namespace tarn {

// ---- one span, which only the caller uses ----

void buffer_core::disown(span* s) const {
  if (settings_.locked) buffer_memory::unlock(s, settings_.wiped_on_fork);
  memory_marks::unpoison(reinterpret_cast<void*>(s->start), s->bytes());
  s->owner.store(nullptr, std::memory_order_relaxed);
}

// Gives the span to the system; returns the bytes. Ends a pin, which the caller has made.
std::size_t buffer_core::discard(span* s) {
  disown(s);
  const std::size_t bytes = engine::heap.release_to_system(s);
  {
    os::lock_guard guard(lock_, *this);
    counted_.given_back += bytes;
  }
  unpin();
  return bytes;
}

// Gives the span to the page heap, with its memory.
void buffer_core::release_to_heap(span* s) {
  disown(s);
  engine::heap.deallocate(s);
}

// ---- beyond the budget ----

void buffer_core::start_leaving_locked(span* s) {
  leaving_bytes_ += s->bytes();
  leaving_.push_back(s);
}

// The oldest leaving span; ends with a pin. Null if there is none.
span* buffer_core::pop_leaving_locked() {
  span* const s = leaving_.pop_front();
  if (s == nullptr) return nullptr;
  leaving_bytes_ -= s->bytes();
  ++pins_;
  return s;
}

void buffer_core::evict_locked(std::size_t keep_bytes) {
  while (kept_.pages() << page_shift > keep_bytes) {
    span* const oldest = kept_.oldest();
    kept_.remove(oldest);
    start_leaving_locked(oldest);
  }
}

// Gives leaving spans to the system until at most `keep_bytes` bytes are leaving; returns the bytes given.
std::size_t buffer_core::discard_leaving(std::size_t keep_bytes) {
  std::size_t bytes = 0;
  for (;;) {
    span* s = nullptr;
    {
      os::lock_guard guard(lock_, *this);
      if (leaving_bytes_ <= keep_bytes) return bytes;
      s = pop_leaving_locked();
    }
    bytes += discard(s);
  }
}

// Lets the background thread give leaving spans to the system. Without such a thread the calling one does it. It also
// does so while more than most_leaving bytes are leaving, but leaves the newest span to the background thread.
void buffer_core::discard_surplus() {
  std::size_t leaving = 0;
  std::size_t newest = 0;
  {
    os::lock_guard guard(lock_, *this);
    leaving = leaving_bytes_;
    if (leaving == 0) return;
    newest = leaving_.back()->bytes();
  }
  discard_leaving(decay::run_errands_soon() ? std::max(newest, most_leaving) : 0);
}

// ---- by time ----

void buffer_core::age(std::int64_t now_ms) {
  for (;;) {
    span* s = nullptr;
    {
      os::lock_guard guard(lock_, *this);
      if (!used_) return;
      evict_locked(budget_bytes());
      span* const oldest = kept_.oldest();
      if (oldest == nullptr || settings_.idle_ms < 0 || now_ms - oldest->kept.since_ms < settings_.idle_ms) {
        break;
      }
      kept_.remove(oldest);
      ++pins_;
      s = oldest;
    }
    discard(s);
  }
  discard_leaving(0);
}

bool buffer_core::has_work() {
  os::lock_guard guard(lock_, *this);
  return !kept_.empty() || leaving_bytes_ != 0 || wanted_pages_ != 0;
}

std::size_t buffer_core::trim() {
  {
    os::lock_guard guard(lock_, *this);
    evict_locked(0);
  }
  return discard_leaving(0);
}

void buffer_core::give_to_heap(bool only_if_locked) {
  for (;;) {
    span* s = nullptr;
    {
      os::lock_guard guard(lock_, *this);
      if (only_if_locked && !settings_.locked) return;
      evict_locked(0);
      s = pop_leaving_locked();
    }
    if (s == nullptr) return;
    release_to_heap(s);
    unpin();
  }
}

// ---- ahead of demand ----

// Keeps a span that has just been backed by memory; the oldest kept ones make room.
void buffer_core::keep_backed_locked(span* s) {
  memory_marks::poison(reinterpret_cast<void*>(s->start), s->bytes());
  kept_.insert(s, os::now_ms(), settings_.zeroed || settings_.locked);
  ++counted_.prepared;
  evict_locked(budget_bytes());
}

void buffer_core::run_errands() {
  do {
    discard_leaving(0);
  } while (prepare_one());
}

// Gets one buffer ready. False if no more are wanted, or there is no memory.
bool buffer_core::prepare_one() {
  std::size_t pages = 0;
  {
    os::lock_guard guard(lock_, *this);
    pages = wanted_pages_;
    if (pages == 0 || kept_.count_fitting(pages, settings_.ahead) >= settings_.ahead ||
        ((kept_.pages() + pages) << page_shift) > budget_bytes()) {
      wanted_pages_ = 0;
      return false;
    }
    ++pins_;
  }
  buffer_failure failure = buffer_failure::none;
  span* const s = take_fresh_once(pages, false, failure);
  if (s != nullptr) {
    {
      os::lock_guard guard(lock_, *this);
      preparing_ = s;
      preparer_ = os::this_thread();
    }
    buffer_memory::prefault(s);
  }
  bool keep = false;
  {
    os::lock_guard guard(lock_, *this);
    preparing_ = nullptr;
    keep = s != nullptr && !ended_;
    if (keep) {
      keep_backed_locked(s);
    } else if (s == nullptr) {
      wanted_pages_ = 0;
    }
  }
  if (s != nullptr && !keep) release_to_heap(s);
  unpin();
  return keep;
}

buffer_failure buffer_core::reserve(std::size_t bytes, std::size_t count) {
  const std::size_t pages = pages_for_request(bytes);
  if (pages == 0) return buffer_failure::no_memory;
  if (count != 0 && (pages << page_shift) > budget_bytes() / count) return buffer_failure::over_budget;
  // At most `count` rounds, even if other threads take buffers meanwhile.
  for (std::size_t i = 0; i < count; ++i) {
    {
      os::lock_guard guard(lock_, *this);
      if (kept_.count_fitting(pages, count) >= count) break;
    }
    buffer_failure failure = buffer_failure::none;
    span* const s = take_fresh(pages, failure);
    if (s == nullptr) return failure;
    buffer_memory::prefault(s);
    os::lock_guard guard(lock_, *this);
    keep_backed_locked(s);
  }
  discard_surplus();
  decay::wake();
  return buffer_failure::none;
}

// ---- figures, fork ----

bool buffer_core::figures(tarn_buffer_stats& out, char* name) {
  os::lock_guard guard(lock_, *this);
  if (!used_ || ended_) return false;
  out = counted_;
  out.misses = out.gets - out.hits;
  out.kept = kept_.count();
  out.kept_bytes = kept_.pages() << page_shift;
  out.leaving_bytes = leaving_bytes_;
  out.limit = budget_bytes();
  if (name != nullptr) std::copy_n(name_, sizeof name_, name);
  return true;
}

// The background thread does not exist in the child, so the span that it was getting ready is freed. If the calling
// thread itself is getting one ready, a signal handler has forked, and the thread continues when the handler returns.
void buffer_core::after_fork_in_child() {
  forked_ = true;
  if (preparing_ != nullptr && preparer_ == os::this_thread()) return;
  span* const s = preparing_;
  preparing_ = nullptr;
  pins_ = 0;
  if (s != nullptr) release_to_heap(s);
  free_if_ended_locked();
}

}  // namespace tarn
