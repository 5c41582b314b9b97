// SPDX-License-Identifier: MIT
// page_heap's growth: new reservations of address space, and purging idle memory before the resident set grows.
//
// Owner, thread safety and invariants: page_heap.hpp.
#include <algorithm>

#include "base/hardened.hpp"
#include "os/memory.hpp"
#include "pages/page_heap.hpp"

namespace tarn {
namespace {

constexpr std::size_t first_reservation = 32 * mib;
constexpr std::size_t largest_reservation = 1 * gib;
// A reservation of n bytes needs at most about n / 32 bytes of spans and object bits for objects of 32 bytes
// and more.
constexpr std::size_t metadata_divisor = 32;
// How long an allocation that would fail waits for pages that are being purged.
constexpr int longest_wait_ms = 200;
// When a large block takes fresh memory although free memory is backed, this fraction of the bytes in use stays backed, and
// no more than of a small heap.
constexpr std::size_t kept_divisor = 4;
constexpr std::size_t least_kept = 16 * mib;

}  // namespace

void page_heap::purge_before_growth(std::size_t bytes, std::size_t keep) {
  const std::size_t dirty = dirty_bytes();
  const std::size_t stays = dirty - std::min(owed_.load(std::memory_order_relaxed), dirty);
  if (stays > keep) purge_beyond(std::max(keep, stays - std::min(bytes, stays)));
}

void page_heap::purge_before_block(std::size_t bytes) {
  // A span that still waits for the background thread, which may get no processor.
  if (has_waiting_span_.load(std::memory_order_relaxed)) purge_waiting(false);
  purge_before_growth(bytes,
                      std::max(least_kept, std::min(in_use_bytes() / kept_divisor, limits_.most_free(0))));
}

// Extends the newest reservation if the addresses behind it are free: the heap then stays in one piece between two
// guards. Otherwise makes another one, if possible in the leaf of the page map around `near`. A leaf is never given back:
// a process that is short of address space, unmaps reservations and makes others over and over would otherwise fill it
// with leaves. So once the system has refused memory, an extension, too, stays in its leaf.
os::guarded_range page_heap::reserve(std::size_t bytes, std::size_t alignment, std::uintptr_t newest_end,
                                     std::uintptr_t near) const {
  const os::address_window leaf{align_down(near, page_map::leaf_bytes), near != 0 ? page_map::leaf_bytes : 0};
  const bool stays = newest_end + bytes <= leaf.start + leaf.bytes;
  if (newest_end != 0 && (stays || !was_refused_.load(std::memory_order_relaxed))) {
    const os::guarded_range more = os::extend_guarded(newest_end, bytes);
    if (more.start != nullptr) return more;
  }
  return os::reserve_guarded(bytes, alignment, os::memory_access::read_write, leaf);
}

// The system has no more memory, but spans that are being purged will be free again in a moment. Waits a millisecond
// for them. False: there is nothing to wait for, or the time is over.
bool page_heap::wait_for_purge(int& waited) {
  bool purging = false;
  if (waited == 0) purge_owed(false);
  {
    os::lock_guard guard(lock_, *this);
    purging = transit_.may_return();
  }
  // The first call always returns true: a purge may have ended since the caller looked.
  if (waited == longest_wait_ms || (waited != 0 && !purging)) return false;
  if (purging) return wait_a_moment(waited);
  ++waited;
  return true;
}

// The system has refused memory for `pages` pages, after the heap had none, when so many spans had become free.
void page_heap::note_refused(std::size_t pages, std::size_t frees) {
  os::lock_guard guard(lock_, *this);
  if (frees == frees_.load(std::memory_order_relaxed) && transit_.empty()) refused_.note(pages, frees);
}

// Whether the same request has been refused, nothing has become free since, and the system still has no `bytes`: one
// call of the system instead of some dozens.
bool page_heap::is_still_refused(std::size_t pages, std::size_t bytes) {
  if (TARN_LIKELY(!refused_.may_cover(pages)) || hardened_build) return false;
  {
    os::lock_guard guard(lock_, *this);
    if (!refused_.holds_at(frees_.load(std::memory_order_relaxed)) || !transit_.empty()) {
      refused_.forget();
      return false;
    }
  }
  return !os::can_reserve(bytes + lacked_.load(std::memory_order_relaxed));
}

// Waits a millisecond. False: the time is over.
bool page_heap::wait_a_moment(int& waited) {
  if (waited == longest_wait_ms) return false;
  ++waited;
  os::futex_word nobody{0};
  os::futex_wait(&nobody, 0, 1);
  return true;
}

bool page_heap::grow(std::size_t pages, std::size_t alignment) {
  const std::size_t least = align_up((pages + alignment - 1) << page_shift, least_growth);
  const bool is_short = was_refused_.load(std::memory_order_relaxed);
  std::size_t reserved = 0;
  std::uintptr_t newest_end = 0;
  std::uintptr_t newest_start = 0;
  {
    os::lock_guard guard(lock_, *this);
    reserved = reserved_ << page_shift;
    newest_end = newest_end_;
    newest_start = newest_start_;
    ++unlocked_users_;
  }
  // A short one finds room in its leaf.
  const std::size_t longest = is_short ? first_reservation : largest_reservation;
  const std::size_t step = std::clamp(reserved / 2, first_reservation, longest);
  std::size_t bytes = align_up(std::max(least, step), huge_page_size);
  bool lacks_metadata = false;
  const auto grow_by = [&](std::size_t reservation_alignment) {
    const os::guarded_range range = reserve(bytes, reservation_alignment, newest_end, newest_start);
    lacks_metadata = range.start != nullptr && !add_reservation(range);
    return range.start != nullptr && !lacks_metadata;
  };
  bool grown = grow_by(huge_page_size);
  // Address space may be limited, and the reservation needs metadata beside it: try half as much each time, down to
  // `least`. Multiples of it, so that requests of the same length, which are likely to follow, leave no rest that nothing
  // fits in.
  while (!grown && bytes > least) {
    bytes = std::max(bytes / 2 / least * least, least);
    grown = grow_by(os::page_unit());
  }
  if (!grown && metadata_.give_back_unopened()) grown = grow_by(os::page_unit());
  if (!grown) {
    was_refused_.store(true, std::memory_order_relaxed);
    const std::size_t metadata_bytes = page_map::metadata_per_leaf + least / metadata_divisor;
    lacked_.store(lacks_metadata ? metadata_bytes : 0, std::memory_order_relaxed);
  }
  end_unlocked_use();
  return grown;
}

void page_heap::touch_ahead() {
  std::uintptr_t next = 0;
  {
    os::lock_guard guard(lock_, *this);
    next = touch_.claim_next_locked();
    if (next != 0) ++unlocked_users_;
  }
  if (next == 0) return;
  if (!touch_.touch_huge(next)) {
    os::address_range rest;
    {
      os::lock_guard guard(lock_, *this);
      rest = touch_.give_up_rest_locked(next + huge_page_size);
    }
    touch_.opt_back(rest);
  }
  end_unlocked_use();
}

void page_heap::end_unlocked_use() {
  os::lock_guard guard(lock_, *this);
  // The count may be 0 already in a forked child, where after_fork_in_child() resets it.
  if (unlocked_users_ != 0) --unlocked_users_;
}

// Makes a new reservation a free span. False: there is no memory for metadata; it is released.
bool page_heap::add_reservation(const os::guarded_range& range) {
  // Reserve the metadata for every way to cut the reservation now, while there is address space: memory that is freed
  // later can then be cut differently.
  if (!map_.ensure(metadata_, address_of(range.start), range.bytes) ||
      !metadata_.ensure_available(range.bytes / metadata_divisor) || !ensure_span_structs()) {
    os::release(range);
    return false;
  }
  const bool opted_out = touch_.opt_out(address_of(range.start), range.bytes, in_use_bytes());
  for (;;) {
    {
      os::lock_guard guard(lock_, *this);
      if (structs_.is_ready()) {
        add_reservation_locked(range, opted_out);
        return true;
      }
    }
    // Other threads have taken the structures meanwhile.
    if (!ensure_span_structs()) break;
  }
  os::release(range);
  return false;
}

void page_heap::add_reservation_locked(const os::guarded_range& range, bool opted_out) {
  const std::uintptr_t start = address_of(range.start);
  // The guard at which the newest reservation ended is memory now.
  if (span* const before = range.extends ? span_around(start - 1) : nullptr) before->borders &= all_before;
  newest_end_ = range.guarded ? range.end() : 0;
  newest_start_ = start;
  span* const s = structs_.take();
  set_range(s, start, range.bytes, false);
  s->borders = border_before | border_behind;
  if (range.guarded) s->borders = all_before | all_behind;
  if (range.extends) s->borders &= all_behind;
  reserved_ += s->pages;
  ranges_.add_locked(s->start, s->end());
  if (opted_out) touch_.opted_out_locked(start, range.bytes);
  if (touch_.may_have_huge()) map_.note_huge(start, range.bytes, touch_.everywhere() && !opted_out);
  touch_.reserved_locked(start, range.bytes);
  first_use_.reserved_locked(start, range.bytes);
  coalesce_locked(s);
}

}  // namespace tarn
