// SPDX-License-Identifier: MIT
// The functions of pools in tarn/pool.h and tarn/detail/pool_bin.hpp.
#include "tarn/detail/pool_bin.hpp"

#include <cerrno>
#include <string_view>

#include "base/known_part.hpp"
#include "engine/engine.hpp"
#include "fronts/pools/checked_slots.hpp"
#include "fronts/pools/pool_registry.hpp"
#include "os/errno_keeper.hpp"
#include "os/memory_marks.hpp"
#include "os/report.hpp"
#include "os/static_storage.hpp"

using namespace tarn;

namespace {

// For threads that are about to end, and when there is no memory for a bin.
void* allocate_without_bin(tarn_pool& pool) {
  single_magazine single;
  if (pool.refill(pool.first_shard(), &single.head, 1) != 0) return single.object();
  errno = ENOMEM;
  return nullptr;
}

void* allocate(tarn_pool& pool, tarn_pool_bin** where) {
  pool_bin* const bin = pool_registry::bin_of(&pool, where);
  if (bin == nullptr) return allocate_without_bin(pool);
  void* const object = detail::pop(bin);
  if (object != nullptr) return object;
  if (void* const fresh = bin->allocate_slow()) return fresh;
  return allocate_without_bin(pool);
}

void deallocate(tarn_pool& pool, tarn_pool_bin** where, void* object) {
  pool_bin* const bin = pool_registry::bin_of(&pool, where);
  if (bin != nullptr && (detail::push(bin, object) || bin->deallocate_slow(object))) return;
  pool.flush(&object, 1);
  pool.release_surplus();
}

// Where the calling thread keeps its bin of the pool; `none` if it has no such place.
tarn_pool_bin** place_of_bin(const tarn_pool& pool, tarn_pool_bin** none) {
  const bool has_entry = !pool.shared && !pool.is_single() && pool.number < tarn_pool_local_bins.count;
  return has_entry ? &tarn_pool_local_bins.bins[pool.number] : none;
}

tarn_pool_stats stats_of(const tarn_pool& const_pool) {
  auto* const pool = const_cast<tarn_pool*>(&const_pool);
  // Both figures must be of one moment, or `live` is wrong; so they are read until `taken` stayed the same meanwhile.
  // The background thread moves slots between the two, too.
  constexpr int most_tries = 20;
  std::size_t taken = pool->taken();
  std::size_t cached = pool_registry::cached(pool);
  for (int tries = 0; tries < most_tries && pool->taken() != taken; ++tries) {
    taken = pool->taken();
    cached = pool_registry::cached(pool);
  }
  tarn_pool_stats out{};
  out.live = taken > cached ? taken - cached : 0;
  out.peak = pool->peak();
  out.bytes = pool->bytes();
  out.cached = cached;
  out.hits = pool->hits();
  out.refills = pool->refills();
  out.object_bytes = pool->layout().size;
  return out;
}

void report_leak(const char* name, std::size_t live) {
  text_buffer<1200> line;
  line.put("tarn: the pool of ").put(std::string_view(name).substr(0, 600)).put(" ends while ").number(live);
  line.put(live == 1 ? " object is" : " objects are").put(" live; its memory is not released\n");
  os::write_line(line);
}

std::atomic<tarn_pool_leak_hook> leak_hook{report_leak};
// Whether a pool is left for report_leaks_at_exit().
std::atomic<bool> some_ended_early{false};

// Runs after the destructors of static objects in everything that uses the library.
[[gnu::destructor]] void report_leaks_at_exit() {
  // Most programs have no such pool; the walk would only make pages of code resident.
  if (!some_ended_early.load(std::memory_order_relaxed)) return;
  pool_registry::pools.for_each([](const tarn_pool& pool) {
    if (!pool.ended_early.load(std::memory_order_relaxed)) return;
    const tarn_pool_stats figures = stats_of(pool);
    if (figures.live != 0) report_leak(pool.name(), figures.live);
  });
}

}  // namespace

tarn_pool* tarn_pool_create(const tarn_pool_options* options) noexcept {
  return pool_registry::create(known_options<tarn_pool_options>(options, TARN_POOL_OPTIONS));
}

tarn_pool* tarn_pool_shared(const tarn_pool_options* options) noexcept {
  return pool_registry::find_or_create(known_options<tarn_pool_options>(options, TARN_POOL_OPTIONS));
}

std::size_t tarn_pool_destroy(tarn_pool* pool) noexcept {
  const std::size_t live = pool_registry::destroy(pool);
  if (live == 0) return 0;
  const tarn_pool_leak_hook hook = leak_hook.load(std::memory_order_relaxed);
  if (hook == report_leak && pool->owner != nullptr && os::is_in_static_storage(pool->owner)) {
    pool->ended_early.store(true, std::memory_order_relaxed);
    some_ended_early.store(true, std::memory_order_relaxed);
  } else {
    hook(pool->name(), live);
  }
  return live;
}

std::size_t tarn_pool_release(tarn_pool* pool) noexcept { return pool_registry::release(pool); }

tarn_pool* tarn_pool_of(const void* address) noexcept { return pool_core::owner_of(address); }

std::size_t tarn_pool_number(const tarn_pool* pool) noexcept { return pool->number; }

// Marks of AddressSanitizer and valgrind: the inlined part of the callers marks a slot that it gives back; where there is
// none (tarn_pool_deallocate), it is marked here. Checked pools have marks of their own.

void* tarn_pool_allocate_slow(tarn_pool* pool, tarn_pool_bin** bin) noexcept {
  void* const object = allocate(*pool, bin);
  if (object != nullptr) memory_marks::unpoison(object, pool->layout().size);
  return object;
}

void tarn_pool_deallocate_slow(tarn_pool* pool, tarn_pool_bin** bin, void* object) noexcept {
  const os::errno_keeper keeper;
  tarn_pool* const owner = pool != nullptr ? pool : pool_core::owner_of(object);
  if (owner == nullptr) os::fatal("destroy of a pointer that is in no pool", object);
  deallocate(*owner, bin, object);
}

void tarn_pool_deallocate(void* object) noexcept {
  const os::errno_keeper keeper;
  tarn_pool* const owner = pool_core::owner_of(object);
  if (owner == nullptr) os::fatal("destroy of a pointer that is in no pool", object);
  if (owner->is_checked()) checked_slots::take_back(owner, object);
  tarn_pool_bin* none = &detail::no_bin.bin;
  if (!owner->is_checked()) memory_marks::poison(object, owner->layout().size);
  deallocate(*owner, place_of_bin(*owner, &none), object);
}

void* tarn_pool_allocate(tarn_pool* pool) noexcept {
  tarn_pool_bin* none = &detail::no_bin.bin;
  tarn_pool_bin** const bin = place_of_bin(*pool, &none);
  return pool->is_checked() ? tarn_pool_checked_allocate(pool, bin) : tarn_pool_allocate_slow(pool, bin);
}

void* tarn_pool_checked_allocate(tarn_pool* pool, tarn_pool_bin** bin) noexcept {
  void* const object = allocate(*pool, bin);
  if (object != nullptr) checked_slots::hand_out(*pool, object);
  return object;
}

void tarn_pool_checked_deallocate(tarn_pool* pool, tarn_pool_bin** bin, void* object) noexcept {
  const os::errno_keeper keeper;
  tarn_pool& owner = checked_slots::take_back(pool, object);
  deallocate(owner, bin, object);
}

void tarn_pool_check(const tarn_pool* pool, const void* object, const char* what) noexcept {
  checked_slots::check(const_cast<tarn_pool*>(pool), object, what);
}

int tarn_pool_reserve(tarn_pool* pool, std::size_t objects) noexcept {
  if (pool->reserve(objects)) return 1;
  errno = ENOMEM;
  return 0;
}

std::size_t tarn_pool_trim(tarn_pool* pool, tarn_pool_bin** bin) noexcept {
  return pool_registry::trim(
      pool, bin == nullptr || pool_bin::is_void(*bin) ? nullptr : static_cast<pool_bin*>(*bin));
}

void tarn_pool_get_stats(const tarn_pool* pool, tarn_pool_stats* out, std::size_t size) noexcept {
  put_known(stats_of(*pool), out, size);
}

void tarn_pool_visit(void (*visit)(void* context, const char* name, const tarn_pool_stats* figures),
                     void* context) noexcept {
  pool_registry::pools.for_each([visit, context](const tarn_pool& pool) {
    const tarn_pool_stats figures = stats_of(pool);
    visit(context, pool.name(), &figures);
  });
}

tarn_pool_leak_hook tarn_pool_set_leak_hook(tarn_pool_leak_hook hook) noexcept {
  return leak_hook.exchange(hook != nullptr ? hook : report_leak, std::memory_order_relaxed);
}

// ---- metrics ----

namespace tarn::pool_registry {
namespace {

using enum metric_kind;
using enum metric_unit;
struct figures : tarn_pool_stats {
  std::uint64_t live_bytes;
};

constexpr metric_of<figures> rows[] = {
    {"tarn_pool_live_objects", gauge, none, "Objects of the typed pool in the hands of the program",
     &figures::live},
    {"tarn_pool_live_bytes", gauge, bytes, "Memory of these", &figures::live_bytes},
    {"tarn_pool_peak_objects", gauge, none, "Upper bound of the most live objects at once", &figures::peak},
    {"tarn_pool_bytes", gauge, bytes, "Memory of the pool", &figures::bytes},
    {"tarn_pool_cached_objects", gauge, none, "Free slots in magazines", &figures::cached},
    {"tarn_pool_hits", counter, none, "Allocations that magazines could serve", &figures::hits},
    {"tarn_pool_refills", counter, none, "Allocations that filled a magazine", &figures::refills},
};

void visit_pools(metric_receiver to) {
  const auto give = [](void* receiver, const char* name, const tarn_pool_stats* one) {
    metric_table<rows>::give(*static_cast<const metric_receiver*>(receiver), name,
                             figures{*one, one->live * one->object_bytes});
  };
  tarn_pool_visit(give, &to);
}

}  // namespace

constinit const metric_group metrics = metric_table<rows>::group(visit_pools, "pool");

}  // namespace tarn::pool_registry
