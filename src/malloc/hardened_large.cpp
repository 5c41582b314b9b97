// SPDX-License-Identifier: MIT
#include "malloc/hardened_large.hpp"

#include <algorithm>
#include <atomic>

#include "base/hardened.hpp"
#include "engine/engine.hpp"
#include "os/hardened_guard.hpp"
#include "os/memory.hpp"

namespace tarn::hardened_large {
namespace {

// The entries of the quarantine. Spans in it take address space only.
constexpr std::size_t entries = 32;
// One word per entry: 0, or the address of a span structure, whose lowest bit is free for the flag `dropped`: the span
// has no memory, and cannot have got any since, as it cannot be written to.
//
//     | address of the span | dropped |
//      63                  1         0
std::atomic<std::uintptr_t> waiting[entries] = {};
constexpr std::uintptr_t dropped = 1;
static_assert(alignof(span) > dropped);
// Spans whose guards the system did not remove, linked by span::next; they are tried again.
std::atomic<span*> refused{nullptr};
// Shorter spans are guarded by markers, longer ones by protection. A marker costs an entry of a page table for each
// page, as much as a page fault; protection costs two mappings for each span.
constexpr std::size_t marked_below = mib;
std::atomic<std::uint32_t> next_entry{0};

// At most 2^protected_shift blocks have guards that take mappings: the kernel allows a process 65,530 mappings by
// default, and each such guard takes two. The table holds the start of each of these blocks' spans at the span's hash
// place, or 0. Relaxed: only one thread uses a span between its allocation and its deallocation, which order
// everything else.
constexpr unsigned protected_shift = 12;
std::atomic<std::uintptr_t> protected_ends[std::size_t{1} << protected_shift] = {};

std::atomic<std::uintptr_t>& protected_end_of(std::uintptr_t start) {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: neighbours get places far apart
  return protected_ends[((start >> page_shift) * odd) >> (64 - protected_shift)];
}

// Claims the place of a span that starts at `start`. False if another block has the place.
bool take_protected_end(std::uintptr_t start) {
  std::uintptr_t none = 0;
  return protected_end_of(start).compare_exchange_strong(none, start, std::memory_order_relaxed);
}

void give_protected_end(std::uintptr_t start) {
  std::atomic<std::uintptr_t>& entry = protected_end_of(start);
  if (entry.load(std::memory_order_relaxed) == start) entry.store(0, std::memory_order_relaxed);
}

// Removes the guard of a span that leaves the quarantine and gives it to the page heap; if the system refuses, queues
// it in `refused`.
void let_go(span* s, page_backing backing) {
  const os::address_range all = os::whole_units(s->start, s->end());
  if (!all.empty() && !os::remove_guard(all.memory(), all.bytes())) {
    s->next = refused.load(std::memory_order_relaxed);
    // release: partner of the acquire in retry_refused().
    while (!refused.compare_exchange_weak(s->next, s, std::memory_order_release, std::memory_order_relaxed)) {
    }
    return;
  }
  give_protected_end(s->start);
  engine::heap.deallocate(s, backing);
}

// The same for a word of `waiting`.
void let_go(std::uintptr_t waited) {
  if (waited == 0) return;
  let_go(reinterpret_cast<span*>(waited & ~dropped),
         (waited & dropped) != 0 ? page_backing::clean : page_backing::young);
}

void retry_refused() {
  if (refused.load(std::memory_order_relaxed) == nullptr) return;
  // acquire: partner of the release in let_go().
  span* s = refused.exchange(nullptr, std::memory_order_acquire);
  while (s != nullptr) {
    span* const next = s->next;
    s->next = nullptr;
    let_go(s, page_backing::young);
    s = next;
  }
}

// Makes the whole span inaccessible. True if it has no memory any more, and cannot get any.
bool guard_all(const span* s) {
  const os::address_range all = os::whole_units(s->start, s->end());
  if (all.empty()) return false;
  const bool guarded = (all.bytes() < marked_below && os::mark_guard(all.memory(), all.bytes())) ||
                       os::protect_guard(all.memory(), all.bytes());
  return guarded && all.bytes() == s->bytes();
}

}  // namespace

std::size_t guard_pages() { return guard_pages_for(os::system_page_size()); }

std::size_t usable_bytes(const span* s) { return s->bytes() - (guard_pages() << page_shift); }

void guard_end(span* s) {
  const os::address_range guard = os::whole_units(s->start + usable_bytes(s), s->end());
  if (guard.empty() || os::mark_guard(guard.memory(), guard.bytes()) || !take_protected_end(s->start)) return;
  if (!os::protect_guard(guard.memory(), guard.bytes())) give_protected_end(s->start);
}

void retire(span* s) {
  const std::uintptr_t waits = address_of(s) | (guard_all(s) ? dropped : 0);
  const std::uint32_t entry = next_entry.fetch_add(1, std::memory_order_relaxed) % entries;
  if (entry == 0) retry_refused();
  // acq_rel: partner of the same exchange in other threads and in release_one(); the thread that takes the span
  // out sees this thread's writes to it.
  let_go(waiting[entry].exchange(waits, std::memory_order_acq_rel));
}

// One at a time, so that of several threads that are short of memory none finds the quarantine empty while another one
// holds all spans.
bool release_one() {
  retry_refused();
  const std::uint32_t oldest = next_entry.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < entries; ++i) {
    // acq_rel: partner of the exchange in retire().
    if (const std::uintptr_t waited =
            waiting[(oldest + i) % entries].exchange(0, std::memory_order_acq_rel)) {
      let_go(waited);
      return true;
    }
  }
  return false;
}

}  // namespace tarn::hardened_large

bool tarn::give_back_kept_span() { return hardened_large::release_one(); }
