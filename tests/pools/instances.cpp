// SPDX-License-Identifier: MIT
// object_pool: options at their limits, thousands of pools at once and one after another, statistics, trim.
#include <atomic>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "program.hpp"

namespace {

using pools_test::order;
using order_pool = tarn::object_pool<order>;

std::vector<order*> fill(order_pool& pool, std::size_t count) {
  std::vector<order*> objects;
  while (objects.size() < count) objects.push_back(pool.create(objects.size()));
  return objects;
}
void clear(order_pool& pool, std::vector<order*>& objects) {
  for (order* each : objects) pool.destroy(each);
  objects.clear();
}

void in_turn() {
  constexpr int pools = 10000 / pools_test::slowdown;
  std::size_t before = 0;
  for (int i = 0; i < pools; ++i) {
    order_pool pool;
    auto objects = fill(pool, 300);
    if (i % 8 == 0) std::thread([&] { clear(pool, objects); }).join();
    clear(pool, objects);
    if (i == pools / 10) before = guarantee::rss_bytes();
  }
  const std::size_t grown = guarantee::growth(before, guarantee::rss_bytes());
  guarantee::measured("%zu bytes of RSS after %d pools in turn", grown, pools);
  if (!pools_test::measurable) return;
  guarantee::need_own_memory_figures();
  TARN_CHECK(grown < pools_test::mib, "%d pools in turn took %zu bytes", pools, grown);
}

void many_at_once(std::size_t pools, unsigned threads) {
  std::vector<std::unique_ptr<order_pool>> all(pools);
  for (auto& each : all) each = std::make_unique<order_pool>();
  {
    std::vector<std::jthread> workers;
    for (unsigned t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        std::vector<order*> objects(pools);
        for (int round = 0; round < 2; ++round) {
          for (std::size_t i = 0; i < pools; ++i) objects[i] = all[i]->create(i + t);
          for (std::size_t i = 0; i < pools; ++i) {
            TARN_CHECK(objects[i]->number == i + t, "an object of pool %zu is another's", i);
            // The second way finds the pool by the object's address.
            if (i % 2 == 0) {
              all[i]->destroy(objects[i]);
            } else {
              tarn::owner_deleter<order>()(objects[i]);
            }
          }
        }
      });
    }
  }
  for (const auto& each : all) {
    TARN_CHECK(each->stats().live == 0, "%zu objects are live in one of many pools", each->stats().live);
  }
}

void maximum(unsigned threads) {
  constexpr std::size_t limit = 256 * guarantee::kib;
  order_pool pool({.limit = limit});
  std::vector<std::vector<order*>> taken(threads);
  for (int round = 0; round < 20; ++round) {
    {
      std::vector<std::jthread> workers;
      for (auto& objects : taken) {
        workers.emplace_back([&] {
          while (order* const each = pool.try_create(objects.size())) objects.push_back(each);
        });
      }
    }
    TARN_CHECK(pool.stats().bytes <= limit, "the maximum is %zu bytes, but the pool has %zu", limit,
               pool.stats().bytes);
    std::size_t count = 0;
    for (const auto& objects : taken) count += objects.size();
    TARN_CHECK(count * sizeof(order) >= limit * 9 / 10, "of %zu bytes only %zu could be used", limit,
               count * sizeof(order));
    bool thrown = false;
    try {
      pool.destroy(pool.create(1U));
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    // If some slots were free, those of ended threads may have come back and let create() succeed.
    if (count * sizeof(order) == limit) TARN_CHECK(thrown, "create() did not throw at the maximum");

    // Even a few slots that one thread has freed can be used by another one.
    std::vector<order*>& from = taken[static_cast<std::size_t>(round) % threads];
    for (int few = 0; few < 5 && !from.empty(); ++few) {
      std::thread([&] {
        pool.destroy(from.back());
        from.pop_back();
      }).join();
      order* const again = pool.try_create(7U);
      TARN_CHECK(again != nullptr, "what another thread gave back cannot be used at the maximum");
      from.push_back(again);
    }
    for (auto& objects : taken) std::thread([&] { clear(pool, objects); }).join();
  }
  TARN_CHECK(pool.stats().live == 0, "%zu objects are live after all are gone", pool.stats().live);
}

// At the maximum, a thread can use an idle thread's free slots, except those (at most 252) in its loaded magazine.
void maximum_with_an_idle_thread() {
  order_pool pool({.limit = 256 * guarantee::kib});
  std::atomic<int> stage{0};
  std::jthread other([&] {
    std::vector<order*> objects;
    while (order* const each = pool.try_create(1U)) objects.push_back(each);
    clear(pool, objects);
    stage = 1;
    stage.notify_all();
    stage.wait(1);
  });
  stage.wait(0);
  std::vector<order*> objects;
  while (order* const each = pool.try_create(1U)) objects.push_back(each);
  guarantee::measured("%zu of 4096 objects while an idle thread has free slots", objects.size());
  TARN_CHECK(objects.size() >= 4096 - 252, "only %zu of 4096 objects while an idle thread has free slots",
             objects.size());
  clear(pool, objects);
  stage = 2;
  stage.notify_all();
}

void reserved() {
  // Without this, decay would return the unused capacity to the system, on a slow machine before the test has used it.
  tarn_set_option("decay_ms", "-1");
  order_pool pool({.initial_capacity = 1000000});
  const std::size_t bytes = pool.stats().bytes;
  TARN_CHECK(bytes >= 64000000, "a million objects of 64 bytes in %zu bytes", bytes);
  auto objects = fill(pool, 1000000);
  TARN_CHECK(pool.stats().bytes == bytes, "the pool grew from %zu to %zu bytes within its initial capacity",
             bytes, pool.stats().bytes);
  tarn_set_option("decay_ms", "1000");
  clear(pool, objects);
  for (const std::size_t many : {SIZE_MAX, SIZE_MAX / 64, std::size_t{1} << 42}) {
    bool thrown = false;
    const double begin = guarantee::wall_seconds();
    try {
      const order_pool huge({.initial_capacity = many});
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    TARN_CHECK(thrown, "room for %zu objects was promised", many);
    const double seconds = guarantee::wall_seconds() - begin;
    TARN_CHECK(seconds < 5, "it took %.1f s to refuse room for %zu objects", seconds, many);
  }
}

void options() {
  for (const std::size_t length : {1U, 2U, 252U}) {
    for (const unsigned shards : {1U, 64U}) {
      for (const bool huge : {false, true}) {
        order_pool pool({.magazine_length = length, .shards = shards, .huge_pages = huge});
        std::vector<std::vector<order*>> taken(8);
        for (int round = 0; round < 3; ++round) {
          std::vector<std::jthread> workers;
          for (std::size_t t = 0; t < taken.size(); ++t) {
            workers.emplace_back([&, t] {
              // Destroys the objects that another thread has made.
              clear(pool, taken[t]);
              taken[t] = fill(pool, 2000);
            });
          }
          workers.clear();
          std::swap(taken.front(), taken.back());
        }
        TARN_CHECK(pool.stats().live == 16000, "%zu objects are live, not 16000", pool.stats().live);
        for (auto& objects : taken) clear(pool, objects);
        TARN_CHECK(pool.stats().live == 0, "%zu objects are live after all are gone", pool.stats().live);
      }
    }
  }
}

void figures() {
  order_pool pool;
  TARN_CHECK(
      pool.stats().live == 0 && pool.stats().bytes == 0 && pool.stats().cached == 0 && pool.stats().peak == 0,
      "a pool that was not used has figures");
  auto objects = fill(pool, 10000);
  const tarn::pool_stats full = pool.stats();
  TARN_CHECK(full.live == 10000, "%zu objects are live, not 10000", full.live);
  TARN_CHECK(full.peak >= 10000, "a peak of %zu, but 10000 are live", full.peak);
  TARN_CHECK(full.bytes >= 640000 && full.bytes <= 900000, "10000 objects of 64 bytes in %zu bytes",
             full.bytes);
  TARN_CHECK((full.live + full.cached) * sizeof(order) <= full.bytes, "more slots than memory");
  TARN_CHECK(full.refills != 0 && full.refills < 1000, "%llu refills for 10000 objects",
             static_cast<unsigned long long>(full.refills));
  clear(pool, objects);
  const tarn::pool_stats empty = pool.stats();
  TARN_CHECK(empty.live == 0 && empty.peak >= 10000, "live %zu, peak %zu after all are gone", empty.live,
             empty.peak);
  pool.trim();
  const tarn::pool_stats trimmed = pool.stats();
  TARN_CHECK(trimmed.bytes == 0 && trimmed.cached == 0, "trim leaves %zu bytes and %zu cached", trimmed.bytes,
             trimmed.cached);
  objects = fill(pool, 100);
  TARN_CHECK(pool.stats().live == 100, "%zu objects are live, not 100", pool.stats().live);
  clear(pool, objects);

  // trim() also returns the slots in the magazines of a thread that has only destroyed objects.
  constexpr auto shared = tarn::pool_of<order>();
  for (int i = 0; i < 1000; ++i) objects.push_back(shared.create(1U));
  std::thread([&] {
    for (order* each : objects) shared.destroy(each);
    const std::size_t bytes = shared.stats().bytes;
    const std::size_t given = shared.trim();
    TARN_CHECK(given + 8192 * 4 >= bytes,
               "trim by a thread that only destroyed objects gave %zu of %zu bytes", given, bytes);
  }).join();
}

}  // namespace

int main() {
  guarantee::start();
  figures();
  options();
  maximum(1);
  maximum(8);
  maximum_with_an_idle_thread();
  reserved();
  many_at_once(2000 / pools_test::slowdown, 4);
  many_at_once(10000 / pools_test::slowdown, 2);
  in_turn();
}
