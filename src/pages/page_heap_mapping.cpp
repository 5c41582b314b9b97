// SPDX-License-Identifier: MIT
// Large blocks of page_heap in mappings of their own. Such a mapping is made for one block, grown and moved by the
// system together with the block, and unmapped when it is idle, so that the whole process can use its address space.
//
// A moved block lies in a single mapping again, so it can be moved again (kernels before 6.17 move one mapping at a
// time). A range is removed from the page map and from the heap before it is unmapped: from then on another thread may
// map something there.
#include <algorithm>

#include "os/memory.hpp"
#include "os/memory_calls.hpp"
#include "os/sandbox.hpp"
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
// A free mapping is made longer for a new block if at least this fraction of the block is backed then.
constexpr std::size_t least_backed_divisor = 4;

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
  return touch_.everywhere() && alignment <= 1 ? os::page_unit() : 0;
}

bool page_heap::may_map(std::size_t pages, std::size_t least_bytes) {
  const std::size_t bytes = pages << page_shift;
  if (bytes < least_bytes || (bytes & (os::system_page_size() - 1)) != 0) return false;
  os::lock_guard guard(lock_, *this);
  return pages >= reserved_ / mapping_divisor;
}

span* page_heap::allocate_mapped(std::size_t pages, std::size_t alignment, span_state state, use how) {
  if (!may_map(pages, growing_from) || !make_room(pages)) return nullptr;
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
    os::lock_guard guard(lock_, *this);
    s = structs_.take();
    if (s != nullptr) {
      set_range(s, address_of(start), bytes, true);
      s->state.store(state, std::memory_order_relaxed);
      map_.set_ends(s);
      reserved_ += pages;
      ranges_.add_locked(s->start, s->end());
      account_in_use(static_cast<std::ptrdiff_t>(pages));
      if (how == use::filled) plan = touch_.plan_block(s->start, bytes, s->start, in_use_bytes());
    }
  }
  if (s == nullptr) {
    os::release(start, bytes);
  } else {
    touch_.carry_out(plan);
    note_growth();
  }
  return s;
}

// For a block that no free span is long enough for: takes a shorter one that is backed and makes it longer, which costs
// a system call or two, and no page faults for what is backed. Not under a seccomp filter: one that is made for malloc need
// not allow mremap.
span* page_heap::allocate_grown(std::size_t pages, span_state state) {
  if (os::is_filtered() || !ensure_span_structs()) return nullptr;
  span* s = nullptr;
  std::size_t before = 0;
  {
    os::lock_guard guard(lock_, *this);
    s = free_.longest(free_spans::half::dirty);
    if (s == nullptr || !s->own_mapping || s->pages >= pages) return nullptr;
    before = s->pages;
    if (s->dirty_pages < std::max(pages / least_backed_divisor, before / 2)) return nullptr;
    remove_locked(s);
    s->state.store(state, std::memory_order_relaxed);
    map_.set_ends(s);
    account_in_use(static_cast<std::ptrdiff_t>(before));
  }
  if (!grow_mapping(s, pages)) {
    // Back as it was: its pages keep their age.
    departure idle;
    {
      os::lock_guard guard(lock_, *this);
      account_in_use(-static_cast<std::ptrdiff_t>(before));
      idle = free_locked(s);
    }
    unmap(idle);
    return nullptr;
  }
  // The memory that came from the shorter block is not zero.
  map_.set_backing(s->start, before, page_backing::young);
  s->dirty_pages = static_cast<std::uint32_t>(before);
  touch_plan plan;
  {
    os::lock_guard guard(lock_, *this);
    plan = touch_.plan_block(s->start, s->bytes(), s->start + (before << page_shift), in_use_bytes());
  }
  // Advice given to the shorter block holds for what has been added, too.
  if (plan.is_empty() && !touch_.everywhere())
    touch_.withdraw_huge_within(s->start, s->bytes(), s->start, s->end());
  touch_.carry_out(plan);
  return s;
}

bool page_heap::grow_mapping(span* s, std::size_t pages, void (*moves)(span*)) {
  if (!s->own_mapping || ((pages << page_shift) & (os::system_page_size() - 1)) != 0) return false;
  if (!make_room(pages - s->pages)) return false;
  purge_before_block((pages - s->pages) << page_shift);
  if (!extend_mapping(s, pages) && !move_mapping(s, pages, moves)) return false;
  note_growth();
  return true;
}

bool page_heap::extend_mapping(span* s, std::size_t pages) {
  const std::size_t more = pages - s->pages;
  const std::size_t bytes = more << page_shift;
  if (!map_.ensure(metadata_, s->end(), bytes) ||
      !os::extend_mapping(reinterpret_cast<void*>(s->end()), bytes)) {
    return false;
  }
  os::lock_guard guard(lock_, *this);
  ranges_.add_locked(s->end(), s->end() + bytes);
  s->pages = static_cast<std::uint32_t>(pages);
  map_.set_ends(s);
  reserved_ += more;
  account_in_use(static_cast<std::ptrdiff_t>(more));
  return true;
}

// A span structure; null: no memory for metadata.
span* page_heap::take_span_struct() {
  while (ensure_span_structs()) {
    os::lock_guard guard(lock_, *this);
    if (span* const s = structs_.take()) return s;
  }
  return nullptr;
}

bool page_heap::move_mapping(span* s, std::size_t pages, void (*moves)(span*)) {
  span* const old = take_span_struct();
  if (old == nullptr) return false;
  set_range(old, s->start, s->bytes(), true);
  const std::uintptr_t to = move_memory(s, pages << page_shift);
  if (to != 0 && moves != nullptr) moves(s);
  if (to != 0 && s->dirty_pages != 0) map_.set_backing(s->start, s->pages, page_backing::clean);
  departure idle;
  {
    os::lock_guard guard(lock_, *this);
    if (to == 0) {
      structs_.put(old);
      return false;
    }
    account_in_use(static_cast<std::ptrdiff_t>(pages - s->pages));
    idle = free_locked(old);
    s->start = to;
    s->pages = static_cast<std::uint32_t>(pages);
    s->dirty_pages = 0;
    map_.set_ends(s);
    reserved_ += pages;
    ranges_.add_locked(s->start, s->end());
  }
  unmap(idle);
  return true;
}

// Moves the memory of `s` to a longer mapping of `bytes` bytes that the page map covers. The old place stays mapped and
// reads as zero. 0: the system cannot, and nothing has changed.
std::uintptr_t page_heap::move_memory(const span* s, std::size_t bytes) {
  // Who listens for memory that goes would not hear of it.
  if (os::memory_calls_are_heard()) return 0;
  const std::size_t before = s->bytes();
  // At the same distance from an aligned address as the old place; otherwise the system cannot move whole page tables.
  void* const room = os::reserve_inaccessible(bytes, wanted_alignment, -s->start & (wanted_alignment - 1));
  if (room == nullptr) return 0;
  // The room is released after ensure(), so that memory mapped by ensure() does not land in it.
  const bool ready = map_.ensure(metadata_, address_of(room), bytes);
  if (!os::release(room, bytes) || !ready) return 0;
  void* const from = reinterpret_cast<void*>(s->start);
  void* const to = os::move_mapping(from, before, room);
  if (to == nullptr) return 0;
  const bool is_known = to == room || ((address_of(to) & (page_size - 1)) == 0 &&
                                       map_.ensure(metadata_, address_of(to), bytes));
  if (!is_known || !os::extend_mapping(static_cast<char*>(to) + before, bytes - before)) {
    // Another thread has mapped something into the room. The old place is still mapped and reads as zero: copy back.
    os::copy_to_zeroes(from, to, before);
    os::release(to, before);
    return 0;
  }
  return address_of(to);
}

void page_heap::set_range(span* s, std::uintptr_t start, std::size_t bytes, bool own_mapping) {
  s->start = start;
  s->pages = static_cast<std::uint32_t>(bytes >> page_shift);
  s->dirty_pages = 0;
  s->own_mapping = own_mapping;
  s->is_first_use = false;
  s->borders = 0;
}

}  // namespace tarn
