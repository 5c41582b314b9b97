// SPDX-License-Identifier: MIT
#include "samples/guarded/guarded_blocks.hpp"

#include <algorithm>
#include <cstring>

#include "os/clock.hpp"
#include "os/guarded_memory.hpp"
#include "os/memory.hpp"
#include "os/sandbox.hpp"
#include "os/thread_number.hpp"
#include "samples/guarded/report.hpp"
#include "unwind/stack_walk.hpp"

namespace tarn {

namespace {

// The most bytes of all slots together.
constexpr std::size_t most_bytes = mib;
// One in start_interval blocks of a class lies at the start of its slot, where an underflow faults at once.
constexpr unsigned start_interval = 4;
// A class gets another slot only while its live blocks are at most this fraction of the slots left, so that long-lived
// blocks of common classes leave slots for other classes.
constexpr std::size_t class_divisor = 4;

bool is_filled(std::uintptr_t start, std::size_t bytes, unsigned char value) {
  const auto* const at = reinterpret_cast<const unsigned char*>(start);
  return bytes == 0 || (at[0] == value && std::memcmp(at, at + 1, bytes - 1) == 0);
}

}  // namespace

TARN_NOINLINE void call_stack::record() {
  const unwind::frame_origin origin = unwind::here();
  count = unwind::walk(origin, frames, most);
  thread = os::thread_number();
}

// ---- the region ----

bool guarded_blocks::ensure_region() {
  // acquire: partner of the release below.
  if (TARN_LIKELY(base_.load(std::memory_order_acquire) != 0)) return true;
  {
    os::lock_guard guard(lock_, *this);
    if (refused_) return false;
  }
  const std::size_t unit = std::max(largest_size, os::system_page_size());
  const std::size_t count = std::min(most_slots, most_bytes / unit);
  const std::size_t bytes = (2 * count + 1) * unit;
  const os::guarded_range region = os::reserve_guarded(bytes, unit, os::memory_access::none);
  bool used = false;
  {
    os::lock_guard guard(lock_, *this);
    if (region.start == nullptr) {
      refused_ = true;
    } else if (base_.load(std::memory_order_relaxed) == 0) {
      region_bytes_ = bytes;
      slot_bytes_ = unit;
      slot_count_ = count;
      for (std::size_t i = 0; i < count; ++i) queue_[i] = static_cast<std::uint8_t>(i);
      queued_ = count;
      // release: partner of the acquires above and in contains().
      base_.store(address_of(region.start), std::memory_order_release);
      used = true;
    }
  }
  if (region.start != nullptr && !used) os::release(region);
  // acquire: as above; another thread may have made the region.
  return base_.load(std::memory_order_acquire) != 0;
}

std::uintptr_t guarded_blocks::slot_start(const guarded_slot* slot) const {
  const auto index = static_cast<std::size_t>(slot - slots_);
  return base_.load(std::memory_order_relaxed) + (2 * index + 1) * slot_bytes_;
}

// The slot of an address in the region. An address in a guard gives the slot before it, or the first one.
guarded_slot* guarded_blocks::slot_at(std::uintptr_t address) {
  const std::size_t unit = (address - base_.load(std::memory_order_relaxed)) / slot_bytes_;
  return &slots_[unit == 0 ? 0 : std::min((unit - 1) / 2, slot_count_ - 1)];
}

guarded_blocks::page_range guarded_blocks::pages_of(const guarded_slot& slot) {
  return {align_down(slot.start, os::system_page_size()),
          align_up(slot.start + slot.size, os::system_page_size())};
}

const guarded_slot* guarded_blocks::nearest(std::uintptr_t address) const {
  const guarded_slot* found = nullptr;
  std::uintptr_t least = UINTPTR_MAX;
  for (std::size_t i = 0; i < slot_count_; ++i) {
    const guarded_slot& slot = slots_[i];
    if (slot.state.load(std::memory_order_relaxed) == guarded_state::unused) continue;
    const std::uintptr_t end = slot.start + slot.size;
    const std::uintptr_t distance = address < slot.start ? slot.start - address
                                    : address < end      ? 0
                                                         : address - end + 1;
    if (distance < least) {
      least = distance;
      found = &slot;
    }
  }
  return found;
}

// ---- slots ----

guarded_slot* guarded_blocks::take_slot(unsigned size_class, const void* owner, bool& at_start) {
  const std::int64_t now_ms = os::now_ms();  // not under the lock: without a vDSO it is a system call
  os::lock_guard guard(lock_, *this);
  if (std::size_t{of_class_[size_class]} * class_divisor > queued_ || queued_ == 0) return nullptr;
  // A block costs four system calls, one of which interrupts every processor that runs a thread of the process. (A class's
  // counter wraps, so one block of 256 is taken for the first again.)
  if (class_samples_[size_class] != 0 && !rate_.allows(now_ms)) return nullptr;
  guarded_slot* const slot = &slots_[queue_[queue_first_]];
  queue_first_ = (queue_first_ + 1) % slot_count_;
  --queued_;
  ++of_class_[size_class];
  at_start = ++class_samples_[size_class] % start_interval == 0;
  slot->size_class = static_cast<std::uint8_t>(size_class);
  slot->owner = owner;
  return slot;
}

void guarded_blocks::put_back(guarded_slot* slot) {
  os::lock_guard guard(lock_, *this);
  queue_[(queue_first_ + queued_) % slot_count_] = static_cast<std::uint8_t>(slot - slots_);
  ++queued_;
  --of_class_[slot->size_class];
}

// ---- blocks ----

// Makes the block's pages accessible. Changing a whole mapping that is never merged with its neighbours takes a third
// of the time. So the only page of a block is made a separate mapping, by advice that its neighbours lack.
bool guarded_blocks::open(guarded_slot& slot, bool at_start) {
  const page_range pages = pages_of(slot);
  void* const memory = reinterpret_cast<void*>(pages.start);
  bool& is_separate = slot.is_separate[at_start ? 1 : 0];
  if (!is_separate && pages.bytes() == os::system_page_size()) {
    os::advise_no_huge(memory, pages.bytes());
    is_separate = true;
  }
  return os::allow_access(memory, pages.bytes());
}

void* guarded_blocks::allocate(std::size_t size, unsigned size_class, const void* owner) {
  if (size - 1 >= largest_size || os::has_entered_sandbox() || !ensure_region()) return nullptr;
  bool at_start = false;
  guarded_slot* const slot = take_slot(size_class, owner, at_start);
  if (slot == nullptr) return nullptr;
  const std::uintptr_t first = slot_start(slot);
  slot->start = at_start ? first : align_down(first + slot_bytes_ - size, size < 16 ? 8 : 16);
  slot->size = size;
  slot->freed.count = 0;
  if (!open(*slot, at_start)) {
    // For example, the table of mappings is full.
    slot->state.store(guarded_state::unused, std::memory_order_relaxed);
    put_back(slot);
    return nullptr;
  }
  const page_range pages = pages_of(*slot);
  std::memset(reinterpret_cast<void*>(pages.start), filling, slot->start - pages.start);
  std::memset(reinterpret_cast<void*>(slot->start + size), filling, pages.end - (slot->start + size));
  slot->allocated.record();
  slot->state.store(guarded_state::live, std::memory_order_relaxed);
  live_bytes_.fetch_add(size, std::memory_order_relaxed);
  samples_.fetch_add(1, std::memory_order_relaxed);
  return reinterpret_cast<void*>(slot->start);
}

std::size_t guarded_blocks::size_of(const void* block) const {
  const guarded_slot* const slot = const_cast<guarded_blocks*>(this)->slot_at(address_of(block));
  const bool is_live = slot->state.load(std::memory_order_relaxed) == guarded_state::live;
  return is_live && slot->start == address_of(block) ? slot->size : 0;
}

void guarded_blocks::check_filling(const guarded_slot& slot) const {
  const page_range pages = pages_of(slot);
  const std::uintptr_t end = slot.start + slot.size;
  if (TARN_LIKELY(is_filled(pages.start, slot.start - pages.start, filling) &&
                  is_filled(end, pages.end - end, filling))) {
    return;
  }
  // Find the damaged byte nearest to the block.
  std::uintptr_t at = end;
  while (at < pages.end && *reinterpret_cast<const unsigned char*>(at) == filling) ++at;
  if (at == pages.end) {
    at = slot.start - 1;
    while (*reinterpret_cast<const unsigned char*>(at) == filling) --at;
  }
  guarded_report::end_with_damage(slot, at);
}

unsigned guarded_blocks::deallocate(void* block) {
  guarded_slot* const slot = slot_at(address_of(block));
  guarded_state expected = guarded_state::live;
  if (slot->start != address_of(block)) guarded_report::end_with_bad_free(*slot, block);
  // Of two threads that free the same block, one wins.
  if (!slot->state.compare_exchange_strong(expected, guarded_state::freed, std::memory_order_relaxed)) {
    guarded_report::end_with_bad_free(*slot, block);
  }
  slot->freed.record();
  check_filling(*slot);
  live_bytes_.fetch_sub(slot->size, std::memory_order_relaxed);
  const unsigned size_class = slot->size_class;
  if (os::has_entered_sandbox()) return size_class;  // it stays accessible, and its slot is used no more
  const page_range pages = pages_of(*slot);
  void* const memory = reinterpret_cast<void*>(pages.start);
  // In this order only the first call has to interrupt other processors. If the system refuses the second one (for
  // example, the table of mappings is full), the block stays accessible; its slot waits all the same.
  os::purge(memory, pages.bytes());
  os::forbid_access(memory, pages.bytes());
  put_back(slot);
  return size_class;
}

}  // namespace tarn
