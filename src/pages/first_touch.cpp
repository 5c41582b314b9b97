// SPDX-License-Identifier: MIT
#include "pages/first_touch.hpp"

#include <algorithm>
#include <utility>

#include "os/clock.hpp"
#include "os/memory.hpp"
#include "os/node.hpp"
#include "os/sandbox.hpp"

namespace tarn {

bool first_touch::wants_huge(std::size_t heap_bytes) const {
  switch (mode_.load(std::memory_order_relaxed)) {
    case huge_pages::never: return false;
    case huge_pages::always: return true;
    case huge_pages::automatic: break;
  }
  return heap_bytes >= huge_from && os::now_ms() >= paused_until_.load(std::memory_order_relaxed);
}

void first_touch::note_touch_time(std::int64_t us) {
  const std::int64_t now = os::now_ms();
  const bool is_slow = us > slow_touch_us;
  if (is_slow) paused_until_.store(now + pause_ms, std::memory_order_relaxed);
  trusted_until_.store(is_slow ? 0 : now + trusted_ms, std::memory_order_relaxed);
}

bool first_touch::is_trusted() const { return os::now_ms() < trusted_until_.load(std::memory_order_relaxed); }

bool first_touch::find_next_locked(std::size_t heap_bytes) {
  const std::uintptr_t next = align_up(handed_out_, huge_page_size);
  if (next + huge_page_size > huge_end_ || heap_bytes < touch_ahead_from || os::has_several_nodes())
    return false;
  next_ = next;
  populated_end_ = std::max(populated_end_, next + huge_page_size);
  return true;
}

std::uintptr_t first_touch::claim_next_locked() {
  const std::uintptr_t next = std::exchange(next_, 0);
  return next >= handed_out_ && next + huge_page_size <= huge_end_ ? next : 0;
}

os::address_range first_touch::give_up_rest_locked(std::uintptr_t start) {
  const os::address_range rest{start, std::max(start, huge_end_)};
  huge_end_ = std::min(huge_end_, start);
  return rest;
}

void first_touch::opt_back(const os::address_range& rest) {
  if (rest.bytes() == 0) return;
  os::advise_no_huge(reinterpret_cast<void*>(rest.start), rest.bytes());
  huge_advised_.fetch_sub(rest.bytes(), std::memory_order_relaxed);
}

os::address_range first_touch::idle_ahead_locked(bool anyway) {
  const bool stands = std::exchange(stood_, handed_out_) == handed_out_;
  const os::address_range ahead{align_up(handed_out_, huge_page_size), populated_end_};
  return (stands || anyway) && !ahead.empty() ? ahead : os::address_range{};
}

void first_touch::give_up_ahead_locked() {
  const std::uintptr_t from = align_up(handed_out_, huge_page_size);
  for (std::uintptr_t* const bound : {&prepared_, &populated_end_, &huge_end_})
    *bound = std::min(*bound, from);
}

touch_plan first_touch::plan_locked(std::uintptr_t start, std::size_t bytes, std::size_t heap_bytes) {
  touch_plan plan;
  const std::uintptr_t end = start + bytes;
  if (end <= handed_out_) return plan;
  if (end > end_) {
    withhold_locked(start, end);
    return plan;
  }
  if (start > handed_out_) left_behind_ += std::min(ahead_at_frontier(), start - handed_out_);
  dense_ += end - std::max(start, handed_out_);
  handed_out_ = end;
  if (end <= prepared_) return plan;
  heap_bytes -= std::min(inherited_, heap_bytes);

  if (wants_huge(std::min(heap_bytes, 2 * dense_))) {
    const std::size_t ahead = std::min(heap_bytes / 8, huge_most);
    const std::uintptr_t first = align_up(std::max(prepared_, start), huge_page_size);
    const std::uintptr_t last =
        std::min(align_up(end + ahead, huge_page_size), align_down(end_, huge_page_size));
    if (first < last) {
      plan.huge_start = first;
      plan.huge_bytes = last - first;
      huge_end_ = last;
      populated_end_ = std::max(populated_end_, first + huge_page_size);
      if (!is_trusted()) {
        plan.has_next = find_next_locked(heap_bytes);
        if (!plan.has_next) plan.timed_start = first;
      }
    }
    prepared_ = std::max(end, last);
    return plan;
  }
  if (heap_bytes >= populate_from) {
    // Who touches a page decides on which memory node it lies: what is ahead may go to a thread of another one.
    const std::size_t ahead =
        os::has_several_nodes() ? 0 : std::min(align_up(heap_bytes / 32, 16 * kib), populate_most);
    plan.populate_start = std::max(start, prepared_);
    plan.populate_bytes = std::min(std::max(end, plan.populate_start + ahead), end_) - plan.populate_start;
    prepared_ = populated_end_ = plan.populate_start + plan.populate_bytes;
    return plan;
  }
  prepared_ = end;
  return plan;
}

void first_touch::withhold_locked(std::uintptr_t start, std::uintptr_t end) {
  if (start >= end_ || end <= handed_out_) return;
  for (std::uintptr_t* const bound : {&prepared_, &end_, &handed_out_, &populated_end_, &huge_end_}) {
    *bound = std::min(*bound, start);
  }
}

void first_touch::begin_child_locked(std::size_t heap_bytes) {
  inherited_ = heap_bytes;
  if (mode_.load(std::memory_order_relaxed) == huge_pages::always) return;
  const std::uintptr_t first = align_up(handed_out_, os::system_page_size());
  const std::uintptr_t last = everywhere() ? end_ : huge_end_;
  if (first < last) {
    os::advise_no_huge(reinterpret_cast<void*>(first), last - first);
    if (everywhere()) opted_out_locked(first, last - first);
  }
  huge_end_ = std::min(huge_end_, handed_out_);
  prepared_ = std::max(handed_out_, std::min(prepared_, populated_end_));
}

touch_plan first_touch::plan_block(std::uintptr_t start, std::size_t bytes, std::uintptr_t fresh,
                                   std::size_t heap_bytes) const {
  touch_plan plan;
  if (bytes < huge_block_from) return plan;
  const huge_pages mode = mode_.load(std::memory_order_relaxed);
  const bool unasked = mode == huge_pages::automatic && was_opted_out(start);
  const bool asked = wants_huge(heap_bytes) && (mode == huge_pages::always ||
                                                os::now_ms() < filled_until_.load(std::memory_order_relaxed));
  if (!unasked && !asked) return plan;
  // The whole block, although only whole huge pages can be used: advice on a part would split the mapping.
  plan.huge_start = start;
  plan.huge_bytes = bytes;
  // What is backed already would always be fast.
  if (mode != huge_pages::always && !unasked && !is_trusted())
    plan.timed_start = align_up(fresh, huge_page_size);
  return plan;
}

bool first_touch::opt_out(std::uintptr_t start, std::size_t bytes, std::size_t heap_bytes) const {
  return everywhere() && heap_bytes < huge_from &&
         mode_.load(std::memory_order_relaxed) != huge_pages::always &&
         os::advise_no_huge(reinterpret_cast<void*>(start), bytes);
}

void first_touch::opted_out_locked(std::uintptr_t start, std::size_t bytes) {
  opted_out_start_ = std::min(opted_out_start_, start);
  opted_out_end_ = std::max(opted_out_end_, start + bytes);
}

bool first_touch::was_opted_out(std::uintptr_t start) const {
  return start >= opted_out_start_ && start < opted_out_end_;
}

void first_touch::note_filled(bool filled) {
  filled_until_.store(filled ? os::now_ms() + filled_ms : 0, std::memory_order_relaxed);
}

void first_touch::learn_from(std::uintptr_t start, std::size_t bytes) {
  if (bytes < huge_block_from || mode_.load(std::memory_order_relaxed) != huge_pages::automatic ||
      os::is_filtered())
    return;
  const std::int64_t now = os::now_ms();
  if (now < next_look_.load(std::memory_order_relaxed)) return;
  next_look_.store(now + look_ms, std::memory_order_relaxed);
  const std::uintptr_t middle = align_down(start + bytes / 2, huge_page_size);
  note_filled(fill_evidence::is_filled(middle, huge_page_size));
}

std::size_t first_touch::ahead_at_frontier() const {
  std::uintptr_t backed = std::max(populated_end_, handed_out_);
  if (huge_end_ > handed_out_) backed = std::max(backed, align_up(handed_out_, huge_page_size));
  return backed - handed_out_;
}

bool first_touch::touch_huge(std::uintptr_t start) {
  // A filter that is made for malloc need not allow the call for the thread's own time.
  const auto clock = os::is_filtered() ? os::now_us : os::thread_us;
  const std::int64_t before = clock();
  if (os::populate(reinterpret_cast<void*>(start), huge_page_size)) {
    populated_.fetch_add(huge_page_size, std::memory_order_relaxed);
    note_touch_time(clock() - before);
  }
  return wants_huge(~std::size_t{0});
}

void first_touch::ask_for_huge(const touch_plan& plan) {
  if (!os::advise_huge(reinterpret_cast<void*>(plan.huge_start), plan.huge_bytes)) return;
  if (plan.timed_start != 0 && plan.timed_start + huge_page_size <= plan.huge_start + plan.huge_bytes) {
    // The huge page already touched stays; the rest becomes ordinary pages, in one mapping with it.
    if (!touch_huge(plan.timed_start)) {
      os::advise_no_huge(reinterpret_cast<void*>(plan.huge_start), plan.huge_bytes);
      huge_advised_.fetch_add(huge_page_size, std::memory_order_relaxed);
      return;
    }
  }
  huge_advised_.fetch_add(plan.huge_bytes, std::memory_order_relaxed);
}

void first_touch::carry_out(const touch_plan& plan) {
  if (plan.huge_bytes != 0) ask_for_huge(plan);
  if (plan.populate_bytes != 0) {
    // Rounded to whole system pages, which may be larger than tarn's.
    const std::uintptr_t start = align_down(plan.populate_start, os::system_page_size());
    const std::size_t bytes =
        align_up(plan.populate_start + plan.populate_bytes, os::system_page_size()) - start;
    if (os::populate(reinterpret_cast<void*>(start), bytes))
      populated_.fetch_add(bytes, std::memory_order_relaxed);
  }
}

void first_touch::withdraw_huge(std::uintptr_t start, std::size_t bytes) const {
  withdraw_huge_within(start, bytes, 0, UINTPTR_MAX);
}

void first_touch::withdraw_huge_within(std::uintptr_t start, std::size_t bytes, std::uintptr_t low,
                                       std::uintptr_t high) const {
  if (!may_have_huge()) return;
  const std::uintptr_t first = std::max(align_down(start, huge_page_size), low);
  const std::uintptr_t end = std::min(align_up(start + bytes, huge_page_size), high);
  os::advise_no_huge(reinterpret_cast<void*>(first), end - first);
}

}  // namespace tarn
