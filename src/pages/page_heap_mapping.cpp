// SPDX-License-Identifier: MIT
// Large blocks of page_heap in mappings of their own. Such a mapping is made for one block, grown and moved by the
// system together with the block, and unmapped when it is idle, so that the whole process can use its address space.
//
// A moved block lies in a single mapping again, so it can be moved again (kernels before 6.17 move one mapping at a
// time). A range is removed from the page map and from the heap before it is unmapped: from then on another thread may
// map something there.
#include <algorithm>

#include "os/memory.hpp"
#include "pages/page_heap.hpp"

namespace tarn {
namespace {

// The system limits the number of mappings (65,530 by default). A block gets a mapping of its own only if it is at
// least 1/mapping_divisor of the heap's address space, so the number of mappings grows only with the logarithm of the
// heap.
constexpr std::size_t mapping_divisor = 1024;
// Blocks that grow get a mapping of their own from this length on; below, copying costs no more than moving.
constexpr std::size_t growing_from = 512 * kib;
// With this alignment of both places the system moves whole page tables and can use huge pages.
constexpr std::size_t wanted_alignment = huge_page_size;

}  // namespace

// How far before an aligned address a mapping begins. If the system backs 2 MiB at the first touch of any page (huge
// pages set to `always`), a block begins one page before a 2 MiB boundary, and the rest of the huge page before it is
// not mapped:
//
//     not mapped  | page | 2 MiB | 2 MiB | …
//                 ^ block
//
// So a program that writes only a header backs one page, and a block that is filled is backed by huge pages except for
// its first page.
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
  // `lead` more, so that the last huge page of the block is complete.
  std::size_t bytes = (pages << page_shift) + lead;
  void* start = os::map_block(bytes, std::max(alignment << page_shift, wanted_alignment), lead);
  if (start == nullptr) {
    // Address space may be short: try without the lead and the alignment.
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
  // At the same distance from an aligned address as the old place; otherwise the system cannot move whole page tables.
  void* const room = os::reserve_inaccessible(bytes, wanted_alignment, -s->start & (wanted_alignment - 1));
  if (room == nullptr) return false;
  // The room is released after ensure(), so that memory mapped by ensure() does not land in it.
  const bool ready = map_.ensure(metadata_, address_of(room), bytes);
  if (!os::release(room, bytes) || !ready) return false;
  void* const from = reinterpret_cast<void*>(s->start);
  void* const to = os::move_mapping(from, before, room);
  if (to == nullptr) return false;
  const bool is_known = to == room || ((address_of(to) & (page_size - 1)) == 0 &&
                                       map_.ensure(metadata_, address_of(to), bytes));
  if (!is_known || !os::extend_mapping(static_cast<char*>(to) + before, bytes - before)) {
    // Another thread has mapped something into the room. The old place is still mapped and reads as zero: copy back.
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

// Removes a clean range from the page map and from reserved_. The caller unmaps it: unmap().
void page_heap::forget_range_locked(std::uintptr_t start, std::size_t bytes) {
  map_.set_span(start, nullptr);
  map_.set_span(start + bytes - 1, nullptr);
  reserved_ -= bytes >> page_shift;
}

// Whether the addresses on at least one side of the span do not belong to the heap, so that unmapping it splits no
// mapping.
bool page_heap::is_at_border(const span* s) const {
  const span* const before = map_.span_of(s->start - 1);
  const span* const after = map_.span_of(s->end());
  return before == nullptr || !before->contains(s->start - 1) || after == nullptr ||
         !after->contains(s->end());
}

// Makes `s`, which is in no list, free and joins it with its neighbours. If the result need not stay mapped, removes it
// from the heap and returns its range, which the caller unmaps without the lock. Short spans between spans in use stay
// mapped: each hole would cost a mapping.
page_heap::unmapping page_heap::settle_locked(span* s) {
  coalesce_locked(s);
  if (!s->own_mapping || s->dirty_pages != 0 || !is_whole(s)) return {};
  if (s->bytes() < growing_from && !is_at_border(s)) return {};
  return detach_locked(s);
}

// Removes a free span and the backing of its pages from the heap. The caller unmaps the range returned: unmap().
page_heap::unmapping page_heap::detach_locked(span* s) {
  remove_locked(s);
  const unmapping idle{s->start, s->bytes()};
  returned_ += std::size_t{s->dirty_pages} << page_shift;
  set_span_backing(s, page_backing::clean);
  forget_range_locked(idle.start, idle.bytes);
  recycle_struct_locked(s);
  return idle;
}

// Unmaps a range. False: the system refuses; the range is purged and becomes a free span again.
bool page_heap::unmap(const unmapping& idle) {
  void* const start = reinterpret_cast<void*>(idle.start);
  if (idle.bytes == 0 || os::release(start, idle.bytes)) return true;
  // If purging fails too, the range would not read as zero: it is never used again.
  if (os::purge_free(start, idle.bytes)) add_free(idle.start, idle.bytes, true);
  return false;
}

// Address space is short: unmaps free spans in mappings of their own even if they are dirty, which also frees memory
// that the system refuses to purge. Returns the bytes unmapped.
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

// Makes a clean range that the page map covers a free span. False: no memory for metadata.
bool page_heap::add_free(std::uintptr_t start, std::size_t bytes, bool own_mapping) {
  for (;;) {
    if (!ensure_span_structs()) return false;
    os::lock_guard guard(lock_);
    span* const s = new_span_locked();
    if (s == nullptr) continue;  // other threads have taken all structures meanwhile
    set_range(s, start, bytes, own_mapping);
    reserved_ += s->pages;
    if (!own_mapping) touch_.reserved_locked(start, bytes);
    coalesce_locked(s);
    return true;
  }
}

}  // namespace tarn
