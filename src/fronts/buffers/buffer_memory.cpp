// SPDX-License-Identifier: MIT
#include "fronts/buffers/buffer_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "engine/engine.hpp"
#include "os/clock.hpp"
#include "os/memory.hpp"
#include "pages/zero_pages.hpp"

namespace tarn::buffer_memory {
namespace {

// One system call faults in at most this much, because page faults of other threads wait for it.
constexpr std::size_t populate_slice = 4 * mib;
constexpr int price_rounds = 3;

void touch_each_page(std::uintptr_t start, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += os::system_page_size()) {
    auto* const byte = reinterpret_cast<volatile unsigned char*>(start + at);
    *byte = *byte;
  }
}

template <class Action>
std::int64_t best_time(Action action) {
  std::int64_t best = INT64_MAX;
  for (int i = 0; i < price_rounds; ++i) {
    const std::int64_t before = os::now_ns();
    action();
    best = std::min(best, os::now_ns() - before);
  }
  return best;
}

// Until the prices are measured, and if there is no memory to measure on, nothing is purged.
constexpr zeroing_prices unknown{1, INT64_MAX, INT64_MAX};
zeroing_prices prices = unknown;  // written by measure()
enum class measuring : std::uint8_t { not_yet, now, done };
std::atomic<measuring> progress{measuring::not_yet};

// Measures on a mapping of its own, because purging pages of the page heap would cost their next users page faults.
void measure() {
  constexpr std::size_t bytes = huge_page_size;
  if (void* const memory = os::reserve(bytes, huge_page_size)) {
    std::memset(memory, 1, bytes);
    prices.memset_ns = best_time([&] { wipe(memory, bytes); });
    const auto drop_and_touch = [&] {
      if (os::purge(memory, bytes) && !os::populate(memory, bytes))
        touch_each_page(address_of(memory), bytes);
    };
    prices.fresh_ns = best_time(drop_and_touch);
    if (os::advise_huge(memory, bytes)) prices.fresh_huge_ns = best_time(drop_and_touch);
    os::release(memory, bytes);
  }
  // release: partner of the acquire in measured_prices().
  progress.store(measuring::done, std::memory_order_release);
}

bool dropping_is_cheaper(bool huge) {
  const zeroing_prices known = measured_prices();
  return (huge ? known.fresh_huge_ns : known.fresh_ns) < known.memset_ns;
}

bool drop(const span* s) { return os::purge(reinterpret_cast<void*>(s->start), s->bytes()); }

}  // namespace

zeroing_prices measured_prices() {
  measuring expected = measuring::not_yet;
  if (progress.compare_exchange_strong(expected, measuring::now, std::memory_order_acquire)) measure();
  // acquire, here and above: partner of the release in measure(). While another thread measures, this one does not
  // wait.
  return progress.load(std::memory_order_acquire) == measuring::done ? prices : unknown;
}

void prefault(const span* s) {
  for (std::uintptr_t at = s->start; at < s->end(); at += populate_slice) {
    const std::size_t bytes = std::min(s->end() - at, populate_slice);
    if (!os::populate(reinterpret_cast<void*>(at), bytes)) touch_each_page(at, bytes);
  }
}

void advise_huge(const span* s) {
  const os::address_range whole = os::whole_units(s->start, s->end(), huge_page_size);
  if (!whole.empty()) os::advise_huge(whole.memory(), whole.bytes());
}

bool lock(const span* s, bool wiped_on_fork) {
  auto* const memory = reinterpret_cast<void*>(s->start);
  if (!os::lock_in_memory(memory, s->bytes())) return false;
  os::set_dumped(memory, s->bytes(), false);
  if (wiped_on_fork) os::set_wiped_on_fork(memory, s->bytes(), true);
  return true;
}

void unlock(const span* s, bool wiped_on_fork) {
  auto* const memory = reinterpret_cast<void*>(s->start);
  os::unlock_from_memory(memory, s->bytes());
  os::set_dumped(memory, s->bytes(), true);
  if (wiped_on_fork) os::set_wiped_on_fork(memory, s->bytes(), false);
}

void wipe(void* memory, std::size_t bytes) {
  std::memset(memory, 0, bytes);
  asm volatile("" : : "r"(memory) : "memory");
}

zeroed_bytes zero_new(span* s, bool may_drop, bool huge) {
  if (s->dirty_pages == 0) return {};
  const std::size_t dirty = std::size_t{s->dirty_pages} << page_shift;
  if (may_drop && dropping_is_cheaper(huge) && drop(s)) return {0, dirty};
  return {zero_dirty_pages(engine::map, s), 0};
}

zeroed_bytes zero_used(span* s, bool may_drop, bool huge) {
  if (may_drop && dropping_is_cheaper(huge) && drop(s)) return {0, s->bytes()};
  std::memset(reinterpret_cast<void*>(s->start), 0, s->bytes());
  return {s->bytes(), 0};
}

}  // namespace tarn::buffer_memory
