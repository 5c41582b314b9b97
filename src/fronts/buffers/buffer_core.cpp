// SPDX-License-Identifier: MIT
// Handing buffers out and taking them back. Idle buffers: buffer_core_idle.cpp.
#include "fronts/buffers/buffer_core.hpp"

#include <algorithm>
#include <cstring>

#include "background/decay.hpp"
#include "background/reclaim.hpp"
#include "engine/engine.hpp"
#include "os/clock.hpp"
#include "os/memory.hpp"
#include "os/memory_marks.hpp"
#include "os/report.hpp"

namespace tarn {
namespace {

constexpr unsigned char guard_byte = 0xb5;

void* memory_of(const span* s) { return reinterpret_cast<void*>(s->start); }

}  // namespace

// ---- the pool ----

bool buffer_core::is_valid(const tarn_buffer_options& r) {
  return (r.name != nullptr || r.name_length == 0) && is_power_of_two(r.alignment) &&
         r.alignment <= largest_alignment && r.idle_ms >= -1 && r.prefault >= 0 &&
         r.prefault <= tarn_buffer_prefault_ahead && r.huge_pages >= 0 &&
         r.huge_pages <= tarn_buffer_huge_never && (r.locked != 0 || r.wiped_on_fork == 0);
}

bool buffer_core::claim(const tarn_buffer_options& request) {
  os::lock_guard guard(lock_, *this);
  if (used_) return false;
  used_ = true;
  ended_ = false;
  settings_.alignment_pages = std::max(request.alignment, os::page_unit()) >> page_shift;
  if (request.huge_pages == tarn_buffer_huge_always) {
    settings_.alignment_pages = std::max(settings_.alignment_pages, pages_per_huge_page);
  }
  settings_.budget = request.limit;
  settings_.idle_ms = request.idle_ms;
  settings_.prefault = request.prefault;
  settings_.ahead = settings_.prefault == tarn_buffer_prefault_ahead ? request.ahead : 0;
  settings_.huge = request.huge_pages;
  settings_.zeroed = request.zeroed != 0;
  settings_.locked = request.locked != 0;
  settings_.wiped_on_fork = request.wiped_on_fork != 0;
  settings_.checked = request.checked != 0;
  // A guard that fork wipes would look like a write past the buffer's end.
  settings_.guard = settings_.checked && !settings_.wiped_on_fork ? guard_bytes : 0;
  const std::size_t length = std::min(request.name_length, longest_name);
  std::copy_n(request.name, length, name_);
  name_[length] = '\0';
  wanted_pages_ = 0;
  forked_ = false;
  counted_ = {};
  return true;
}

void buffer_core::end() {
  {
    os::lock_guard guard(lock_, *this);
    ended_ = true;
    ++pins_;
    wanted_pages_ = 0;
    evict_locked(0);
  }
  discard_leaving(0);
  unpin();
}

// The count may be 0 already in a forked child, where after_fork_in_child() resets it.
void buffer_core::unpin() {
  os::lock_guard guard(lock_, *this);
  if (pins_ != 0) --pins_;
  free_if_ended_locked();
}

void buffer_core::free_if_ended_locked() {
  if (ended_ && counted_.live == 0 && pins_ == 0 && leaving_.empty()) used_ = false;
}

std::size_t buffer_core::budget_bytes() const { return group_.budget.of(settings_.budget); }

// The length of a span for the request; 0: too long for any machine.
std::size_t buffer_core::pages_for_request(std::size_t bytes) const {
  if (bytes > largest) return 0;
  return align_up(std::max(bytes, smallest) + settings_.guard, os::page_unit()) >> page_shift;
}

std::size_t buffer_core::usable_bytes(const span* s) const { return s->bytes() - settings_.guard; }

// ---- taking ----

// Removes a kept or leaving span of at least `pages` pages from its list; counts a hit or a miss.
buffer_core::find_result buffer_core::find_locked(std::size_t pages) {
  find_result result;
  result.found = kept_.best(pages);
  if (result.found != nullptr) {
    result.since_ms = result.found->kept.since_ms;
    result.is_zero = result.found->kept.is_zero;
    kept_.remove(result.found);
  } else {
    for (span* s = leaving_.front(); s != nullptr && result.found == nullptr; s = s->next) {
      if (s->pages >= pages) result.found = s;
    }
    if (result.found != nullptr) {
      leaving_.remove(result.found);
      leaving_bytes_ -= result.found->bytes();
    }
  }
  if (result.found != nullptr) {
    ++counted_.hits;
    result.is_longer = !kept_spans::fits(result.found->pages, pages);
  }
  ++counted_.gets;
  result.errands = note_demand_locked(pages);
  return result;
}

// Whether the background thread should get buffers of this length ready.
bool buffer_core::note_demand_locked(std::size_t pages) {
  if (settings_.ahead == 0 || ended_ || ((kept_.pages() + pages) << page_shift) > budget_bytes() ||
      kept_.count_fitting(pages, settings_.ahead) >= settings_.ahead) {
    return false;
  }
  wanted_pages_ = pages;
  return true;
}

// Cuts `s`, which only the caller uses, to its first pages, rounded up to the alignment; keeps the remainder, whose
// age and zeroes are those in `of`.
void buffer_core::cut(span* s, std::size_t pages, const find_result& of) {
  const std::size_t first = align_up(pages, settings_.alignment_pages);
  if (first >= s->pages) return;
  span* const rest = engine::heap.split(s, first);
  if (rest == nullptr) return;  // no memory for metadata: the buffer stays longer
  if (rest->bytes() < smallest) return release_to_heap(rest);
  {
    os::lock_guard guard(lock_, *this);
    kept_.insert_aged(rest, of.since_ms, of.is_zero);
    // The remainder of a leaving span may exceed the budget.
    evict_locked(budget_bytes());
  }
  discard_surplus();
}

// After a miss: if the kept spans together have `pages` pages, gives the oldest of them to the page heap.
void buffer_core::make_room(std::size_t pages) {
  for (std::size_t given = 0; given < pages;) {
    span* oldest = nullptr;
    {
      os::lock_guard guard(lock_, *this);
      if (given == 0 && kept_.pages() < pages) return;
      oldest = kept_.oldest();
      if (oldest == nullptr) return;
      kept_.remove(oldest);
    }
    given += oldest->pages;
    release_to_heap(oldest);
  }
}

span* buffer_core::take_fresh_once(std::size_t pages, bool may_reclaim, buffer_failure& failure) {
  const bool filled = settings_.huge == tarn_buffer_huge_automatic;
  const auto take = [=, this] {
    return engine::central_tier.take_pages(pages, settings_.alignment_pages, span_state::kept,
                                           filled ? page_heap::use::filled : page_heap::use::sparse);
  };
  span* const s = may_reclaim ? engine::take_or_reclaim(take) : take();
  if (s == nullptr) {
    failure = buffer_failure::no_memory;
    return nullptr;
  }
  if (settings_.zeroed || settings_.locked) zero(s, false);
  if (is_huge()) buffer_memory::advise_huge(s);
  if (settings_.locked && !buffer_memory::lock(s, settings_.wiped_on_fork)) {
    engine::heap.deallocate(s);
    failure = buffer_failure::not_lockable;
    return nullptr;
  }
  s->owner.store(this, std::memory_order_relaxed);
  return s;
}

span* buffer_core::take_fresh(std::size_t pages, buffer_failure& failure) {
  span* s = take_fresh_once(pages, true, failure);
  if (s == nullptr && failure == buffer_failure::not_lockable) {
    // Idle buffers of all locked pools count against the limit; they are unlocked.
    for_each_pool(group_, [](buffer_core& pool) { pool.give_to_heap(true); });
    s = take_fresh_once(pages, true, failure);
  }
  return s;
}

// Locks a kept span in memory in a forked child: locks are not inherited. False: the system refuses.
bool buffer_core::lock_again(const span* s) {
  {
    os::lock_guard guard(lock_, *this);
    if (!forked_) return true;
  }
  return buffer_memory::lock(s, settings_.wiped_on_fork);
}

// Zeroes the span and counts the bytes. `used`: the span was kept; else it is from the page heap.
void buffer_core::zero(span* s, bool used) {
  const auto zeroed = used ? buffer_memory::zero_used(s, may_drop(), is_huge())
                           : buffer_memory::zero_new(s, may_drop(), is_huge());
  os::lock_guard guard(lock_, *this);
  counted_.zeroed_by_memset += zeroed.by_memset;
  counted_.zeroed_by_system += zeroed.by_system;
}

// Makes the span a buffer.
void buffer_core::hand_out(span* s) {
  if (settings_.guard != 0) set_guard(s);
  {
    os::lock_guard guard(lock_, *this);
    // Under the lock, which fork takes, too: so no fork finds LeakSanitizer's own lock taken.
    memory_marks::register_leak_root(memory_of(s), s->bytes());
    ++counted_.live;
    counted_.live_bytes += s->bytes();
  }
  // The owner is set before. Relaxed: the program's passing of the pointer to another thread orders both stores.
  s->state.store(span_state::buffer, std::memory_order_relaxed);
}

span* buffer_core::get(std::size_t bytes, std::size_t* capacity, buffer_failure& failure) {
  const std::size_t pages = pages_for_request(bytes);
  if (pages == 0) {
    failure = buffer_failure::no_memory;
    return nullptr;
  }
  find_result result;
  {
    os::lock_guard guard(lock_, *this);
    result = find_locked(pages);
  }
  span* s = result.found;
  if (s != nullptr) {
    if (result.is_longer) cut(s, pages, result);
    memory_marks::unpoison(memory_of(s), s->bytes());
    if (settings_.zeroed && !result.is_zero) zero(s, true);
    if (settings_.locked && !lock_again(s)) {
      release_to_heap(s);
      s = nullptr;
      failure = buffer_failure::not_lockable;
    }
  } else {
    make_room(pages);
    s = take_fresh(pages, failure);
  }
  if (s == nullptr) {
    os::lock_guard guard(lock_, *this);
    --counted_.gets;
    if (result.found != nullptr) --counted_.hits;
    return nullptr;
  }
  if (result.found == nullptr && settings_.prefault != tarn_buffer_prefault_never && !settings_.locked) {
    buffer_memory::prefault(s);
  }
  hand_out(s);
  *capacity = usable_bytes(s);
  if (result.errands && !decay::run_errands_soon()) {
    // Without a background thread no buffers are got ready; misses prefault their own.
    os::lock_guard guard(lock_, *this);
    wanted_pages_ = 0;
  }
  return s;
}

// ---- giving back ----

void buffer_core::take_back(span* s) {
  if (settings_.guard != 0) check_guard(s);
  if (settings_.locked) buffer_memory::wipe(memory_of(s), s->bytes());
  memory_marks::poison(memory_of(s), s->bytes());
  const std::size_t bytes = s->bytes();
  const std::int64_t now = os::now_ms();
  bool ended = false;
  {
    os::lock_guard guard(lock_, *this);
    memory_marks::unregister_leak_root(memory_of(s), bytes);
    --counted_.live;
    counted_.live_bytes -= bytes;
    ended = ended_;
    if (ended) {
      ++pins_;
    } else if (bytes > budget_bytes()) {
      // The buffer alone exceeds the budget: it leaves, instead of all others.
      s->dirty_pages = s->pages;
      start_leaving_locked(s);
    } else {
      kept_.insert(s, now, settings_.locked);  // wiped
      evict_locked(budget_bytes());
    }
  }
  if (ended) {
    discard(s);
    return;
  }
  discard_surplus();
  decay::wake();
}

// ---- guards ----

void buffer_core::set_guard(const span* s) const {
  std::memset(reinterpret_cast<void*>(s->end() - guard_bytes), guard_byte, guard_bytes);
  memory_marks::poison(reinterpret_cast<void*>(s->end() - guard_bytes), guard_bytes);
}

void buffer_core::check_guard(const span* s) const {
  memory_marks::unpoison(reinterpret_cast<void*>(s->end() - guard_bytes), guard_bytes);
  for (std::uintptr_t at = s->end() - guard_bytes; at < s->end(); ++at) {
    if (*reinterpret_cast<const unsigned char*>(at) == guard_byte) continue;
    os::fatal_at(reinterpret_cast<const void*>(at), "write past the end of a buffer of the pool ",
                 static_cast<const char*>(name_));
  }
}

}  // namespace tarn
