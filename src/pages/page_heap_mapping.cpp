// SPDX-License-Identifier: MIT
// Large blocks of page_heap in mappings of their own: made for one block, grown and moved with it by the system, and
// unmapped when they are idle, so that their address space serves the whole process.
//
// A moved block is one mapping again, so it can be moved again (kernels before 6.17 move one mapping at a time). Address
// space leaves the page map, and the heap, before it leaves the process: from then on another thread may map there.
#include <algorithm>

#include "os/memory.hpp"
#include "pages/page_heap.hpp"

namespace tarn {
namespace {

// The table of mappings is limited (65,530 by default). A block has a mapping of its own if it is at least this part of
// the heap's address space, so that the number of mappings grows with the logarithm of that only.
constexpr std::size_t mapping_divisor = 1024;
// Blocks that grow have mappings of their own from this length on: below, copying is as cheap.
constexpr std::size_t growing_from = 512 * kib;
// The system moves whole page tables, and backs by huge pages, where both places are aligned so.
constexpr std::size_t wanted_alignment = huge_page_size;

}  // namespace

// Where the system backs 2 MiB at the first touch of any of its pages, a block begins a page before such a piece, and what
// is before the block is not mapped. So a program that writes a header alone has no more than that page backed; a block
// that is filled lies on huge pages but for its first page.
std::size_t page_heap::lead_of(std::size_t alignment) const {
  return touch_.everywhere() && alignment <= 1 ? std::max(page_size, os::system_page_size()) : 0;
}

bool page_heap::may_map(std::size_t pages, std::size_t least_bytes) {
  const std::size_t bytes = pages << page_shift;
  if (bytes < least_bytes || (bytes & (os::system_page_size() - 1)) != 0) return false;
  os::lock_guard guard(lock_);
  return pages >= reserved_ / mapping_divisor;
}

span* page_heap::allocate_mapped(std::size_t pages, std::size_t alignment, span_state state, use how) {
  if (!may_map(pages, growing_from)) return nullptr;
  purge_before_block(pages << page_shift);
  const std::size_t lead = lead_of(alignment);
  std::size_t bytes =
      (pages << page_shift) + lead;  // or the last huge page of a block that is filled would be missing
  void* start = os::map_block(bytes, std::max(alignment << page_shift, wanted_alignment), lead);
  if (start == nullptr) {
    // Address space may be short: no more of it than the block itself.
    bytes = pages << page_shift;
    start = os::map_block(bytes, std::max(alignment << page_shift, os::system_page_size()));
  }
  if (start == nullptr) return nullptr;
  pages = bytes >> page_shift;
  touch_plan plan;
  span* s = nullptr;
  if (map_.ensure(metadata_, address_of(start), bytes) && ensure_span_structs()) {
    os::lock_guard guard(lock_);
    s = new_span_locked();
    if (s != nullptr) {
      set_range(s, address_of(start), bytes, true);
      s->state.store(state, std::memory_order_relaxed);
      map_.set_ends(s);
      reserved_ += pages;
      account_in_use(static_cast<std::ptrdiff_t>(pages));
      if (how == use::filled) plan = touch_.plan_block(s->start, bytes, in_use_bytes());
    }
  }
  if (s == nullptr)
    os::release(start, bytes);
  else
    touch_.carry_out(plan);
  return s;
}

bool page_heap::grow_mapping(span* s, std::size_t pages) {
  if (!s->own_mapping || ((pages << page_shift) & (os::system_page_size() - 1)) != 0) return false;
  purge_before_block((pages - s->pages) << page_shift);
  return extend_mapping(s, pages) || move_mapping(s, pages);
}

bool page_heap::extend_mapping(span* s, std::size_t pages) {
  const std::size_t more = pages - s->pages;
  const std::size_t bytes = more << page_shift;
  if (!map_.ensure(metadata_, s->end(), bytes) ||
      !os::extend_mapping(reinterpret_cast<void*>(s->end()), bytes)) {
    return false;
  }
  os::lock_guard guard(lock_);
  s->pages = static_cast<std::uint32_t>(pages);
  map_.set_ends(s);
  reserved_ += more;
  account_in_use(static_cast<std::ptrdiff_t>(more));
  return true;
}

bool page_heap::move_mapping(span* s, std::size_t pages) {
  const std::size_t bytes = pages << page_shift;
  const std::size_t before = s->bytes();
  if (!ensure_span_structs()) return false;
  // As far from an aligned address as the old place, or the system cannot move whole page tables.
  void* const room = os::reserve_inaccessible(bytes, wanted_alignment, -s->start & (wanted_alignment - 1));
  if (room == nullptr) return false;
  // What ensure() maps must not come to lie in the room, so that is released after it.
  const bool ready = map_.ensure(metadata_, address_of(room), bytes);
  if (!os::release(room, bytes) || !ready) return false;
  void* const from = reinterpret_cast<void*>(s->start);
  void* const to = os::move_mapping(from, before, room);
  if (to == nullptr) return false;
  const bool is_known = to == room || ((address_of(to) & (page_size - 1)) == 0 &&
                                       map_.ensure(metadata_, address_of(to), bytes));
  if (!is_known || !os::extend_mapping(static_cast<char*>(to) + before, bytes - before)) {
    // Another thread has taken the room, or a part of it. The old place is still there, and empty.
    os::copy_to_zeroes(from, to, before);
    os::release(to, before);
    return false;
  }
  if (s->dirty_pages != 0) map_.set_backing(s->start, s->pages, page_backing::clean);
  unmapping idle{address_of(from), before};
  {
    os::lock_guard guard(lock_);
    account_in_use(static_cast<std::ptrdiff_t>(pages - s->pages));
    span* const old = new_span_locked();
    if (old != nullptr) {
      set_range(old, idle.start, idle.bytes, true);
      idle = settle_locked(old);
    } else {
      forget_range_locked(idle.start, idle.bytes);
    }
    s->start = address_of(to);
    s->pages = static_cast<std::uint32_t>(pages);
    s->dirty_pages = 0;
    map_.set_ends(s);
    reserved_ += pages;
  }
  unmap(idle);
  return true;
}

// Address space that is no one else's, all of it clean, leaves the heap; unmap() is to follow.
void page_heap::forget_range_locked(std::uintptr_t start, std::size_t bytes) {
  map_.set_span(start, nullptr);
  map_.set_span(start + bytes - 1, nullptr);
  reserved_ -= bytes >> page_shift;
}

// Whether the address space on one side of the span is not the heap's, so that unmapping it splits no mapping.
bool page_heap::is_at_border(const span* s) const {
  const span* const before = map_.span_of(s->start - 1);
  const span* const after = map_.span_of(s->end());
  return before == nullptr || !before->contains(s->start - 1) || after == nullptr ||
         !after->contains(s->end());
}

// `s`, which is in no list, becomes free, as one with its neighbours. What need not stay mapped then is in no list any
// more, but left to unmap(), without the lock. Short spans between others in use stay, or each would cost a mapping.
page_heap::unmapping page_heap::settle_locked(span* s) {
  coalesce_locked(s);
  if (!s->own_mapping || s->dirty_pages != 0 || !is_whole(s)) return {};
  if (s->bytes() < growing_from && !is_at_border(s)) return {};
  return detach_locked(s);
}

// A free span leaves the heap, and what is known of its pages with it; unmap() is to follow.
page_heap::unmapping page_heap::detach_locked(span* s) {
  remove_locked(s);
  const unmapping idle{s->start, s->bytes()};
  returned_ += std::size_t{s->dirty_pages} << page_shift;
  set_span_backing(s, page_backing::clean);
  forget_range_locked(idle.start, idle.bytes);
  recycle_struct_locked(s);
  return idle;
}

// What the system refuses to unmap is free again, without memory behind it. False if so.
bool page_heap::unmap(const unmapping& idle) {
  void* const start = reinterpret_cast<void*>(idle.start);
  if (idle.bytes == 0 || os::release(start, idle.bytes)) return true;
  // Memory that stays behind it would not read as zero: such address space is out of use for good.
  if (os::purge_free(start, idle.bytes)) add_free(idle.start, idle.bytes, true);
  return false;
}

// Address space is short: free spans in mappings of their own are unmapped whatever is behind them, which the system may
// do where it drops no memory. Returns the bytes.
std::size_t page_heap::unmap_idle() {
  constexpr std::size_t most = 16;
  std::size_t unmapped = 0;
  for (;;) {
    unmapping idle[most];
    std::size_t count = 0;
    {
      os::lock_guard guard(lock_);
      for (std::size_t bin = free_spans::bin_of(growing_from >> page_shift);
           bin < free_spans::bin_count && count < most; ++bin) {
        for (span *s = free_.dirty_bin(bin).front(), *next = nullptr; s != nullptr && count < most;
             s = next) {
          next = s->next;
          if (s->own_mapping && is_whole(s)) idle[count++] = detach_locked(s);
        }
      }
    }
    std::size_t refused = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (unmap(idle[i]))
        unmapped += idle[i].bytes;
      else
        ++refused;
    }
    if (count < most || refused != 0) return unmapped;
  }
}

void page_heap::set_range(span* s, std::uintptr_t start, std::size_t bytes, bool own_mapping) {
  s->start = start;
  s->pages = static_cast<std::uint32_t>(bytes >> page_shift);
  s->dirty_pages = 0;
  s->own_mapping = own_mapping;
}

// Address space without memory behind it, known to the page map, becomes a free span. False: no metadata.
bool page_heap::add_free(std::uintptr_t start, std::size_t bytes, bool own_mapping) {
  for (;;) {
    if (!ensure_span_structs()) return false;
    os::lock_guard guard(lock_);
    span* const s = new_span_locked();
    if (s == nullptr) continue;  // others took every structure at hand in between
    set_range(s, start, bytes, own_mapping);
    reserved_ += s->pages;
    if (!own_mapping) touch_.reserved_locked(start, bytes);
    coalesce_locked(s);
    return true;
  }
}

}  // namespace tarn
