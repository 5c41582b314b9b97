// SPDX-License-Identifier: MIT
#include "os/contention.hpp"

#include "os/clock.hpp"

namespace tarn::os::contention {

constinit lock_record records[most_records];

namespace {

// A lock's record is one of this many, from the one that its address gives.
constexpr std::size_t most_probes = 32;

constinit std::atomic<std::uint64_t> lost_count{0};
constinit std::atomic<std::int64_t> time_at_start{0};
// The tick at which counting was turned on last; unlike counting_since it stays when counting is turned off.
constinit std::atomic<std::uint64_t> ticks_at_start{0};

// By the only writer at that time.
void add(std::atomic<std::uint64_t>& to, std::uint64_t value) {
  to.store(to.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

std::size_t first_probe(const void* lock) {
  constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15;
  return static_cast<std::size_t>(address_of(lock) * golden_ratio >> 32U) % most_records;
}

// `claim`: makes the lock a record if it has none.
lock_record* find(const void* lock, bool claim) {
  const std::size_t first = first_probe(lock);
  for (std::size_t i = 0; i < most_probes; ++i) {
    lock_record& r = records[(first + i) % most_records];
    const void* owner = r.lock.load(std::memory_order_relaxed);
    if (owner == lock) return &r;
    if (owner != nullptr) continue;
    if (!claim) return nullptr;
    // relaxed: a record has no contents yet. If another lock has claimed it meanwhile, the next one may be free.
    if (r.lock.compare_exchange_strong(owner, lock, std::memory_order_relaxed)) return &r;
  }
  return nullptr;
}

}  // namespace

lock_counts lock_record::counts() const {
  const auto value = [](const std::atomic<std::uint64_t>& from) {
    return from.load(std::memory_order_relaxed);
  };
  return {value(taken), value(transfers),           value(waits),  value(waited),
          value(held),  value(held_after_transfer), value(longest)};
}

void set(bool on) {
  if (on == is_on()) return;
  if (on) {
    time_at_start.store(now_ns(), std::memory_order_relaxed);
    ticks_at_start.store(ticks(), std::memory_order_relaxed);
  }
  counting_since.store(on ? ticks_at_start.load(std::memory_order_relaxed) : 0, std::memory_order_relaxed);
  detour.store(on ? ~std::uintptr_t{0} : 0, std::memory_order_relaxed);
}

void note_taken(const void* lock, std::uintptr_t holder, std::uint64_t waited) {
  lock_record* const r = find(lock, true);
  if (r == nullptr) {
    lost_count.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::uintptr_t last = r->last_holder.load(std::memory_order_relaxed);
  const bool is_transfer = last != holder && last != 0;
  if (last != holder) r->last_holder.store(holder, std::memory_order_relaxed);
  add(r->taken, 1);
  if (is_transfer) add(r->transfers, 1);
  if (waited != 0) {
    add(r->waits, 1);
    add(r->waited, waited);
  }
  r->is_transfer.store(is_transfer, std::memory_order_relaxed);
  // Last, so that the time in which the record's cache line comes from another processor does not count.
  r->since.store(ticks(), std::memory_order_relaxed);
}

void note_release(const void* lock) {
  const std::uint64_t now = ticks();
  lock_record* const r = find(lock, false);
  if (r == nullptr) return;
  const std::uint64_t since = r->since.load(std::memory_order_relaxed);
  r->since.store(0, std::memory_order_relaxed);
  const std::uint64_t begin = counting_since.load(std::memory_order_relaxed);
  // Counting may have been off when the lock was taken, or fork has taken it. Counters of two processors may differ by
  // some ticks.
  if (begin == 0 || since < begin || now <= since) return;
  add(r->held, now - since);
  if (r->is_transfer.load(std::memory_order_relaxed)) add(r->held_after_transfer, now - since);
  if (now - since > r->longest.load(std::memory_order_relaxed))
    r->longest.store(now - since, std::memory_order_relaxed);
}

std::uint64_t lost() { return lost_count.load(std::memory_order_relaxed); }

lock_record* record_of(const void* lock) { return find(lock, false); }

std::uint64_t nanoseconds(std::uint64_t counted) {
  const auto time = static_cast<double>(now_ns() - time_at_start.load(std::memory_order_relaxed));
  const auto passed = static_cast<double>(ticks() - ticks_at_start.load(std::memory_order_relaxed));
  return passed > 0 ? static_cast<std::uint64_t>(static_cast<double>(counted) * (time / passed)) : 0;
}

}  // namespace tarn::os::contention
