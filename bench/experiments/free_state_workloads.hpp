// SPDX-License-Identifier: MIT
// free_state_workloads: what a variant of the span tier is put through; each function makes a fresh
// allocator,
//   runs once and returns its figures.
// Owner: free_state_owner. Thread safety: one workload at a time; the arena is shared by all.
#pragma once

#include <condition_variable>
#include <unordered_set>

#include "mini_thread_cache.hpp"

namespace experiment {

inline constexpr double span_megabytes = static_cast<double>(span_bytes) / 1e6;

inline elapsed per_pair(const elapsed& all, std::size_t pairs) {
  return {all.wall_ns / static_cast<double>(pairs), all.cpu_ns / static_cast<double>(pairs)};
}

// T threads each take objects, write them, return them in random order.
template <typename tier_type>
elapsed shuffled_return(unsigned threads, double scale) {
  const std::size_t objects = static_cast<std::size_t>(100'000 * scale) + 1;
  constexpr unsigned rounds = 10;
  auto shared = std::make_unique<shared_state<tier_type>>(8);
  const elapsed all = start_together(threads, [&](unsigned index, auto wait) {
    if (threads > 1) pin_to(index);  // the scheduler may else keep both on one processor for a while
    thread_cache<tier_type> cache(*shared);
    rng random(index + 1);
    std::vector<void*> mine(objects);
    std::vector<std::uint32_t> order(objects);
    for (std::size_t item = 0; item < objects; ++item) order[item] = static_cast<std::uint32_t>(item);
    shuffle(order, random);
    const auto round = [&] {
      for (void*& each : mine) {
        each = cache.allocate();
        *static_cast<std::uint64_t*>(each) = index;
      }
      for (const std::uint32_t item : order) cache.release(mine[item]);
    };
    round();  // spans and pages exist from here on
    wait();
    for (unsigned count = 0; count < rounds; ++count) round();
    wait();
  });
  return per_pair(all, objects * threads * rounds);
}

struct tier_result {
  double refill_ns;
  double flush_ns;
};

// The span tier alone, one thread: magazines filled, all their objects shuffled, magazines flushed. For the
// variants that refill and flush under a lock this is how long they hold it.
template <typename tier_type>
tier_result tier_alone(double scale) {
  const std::size_t magazines = static_cast<std::size_t>(400 * scale) + 1;
  auto shared = std::make_unique<shared_state<tier_type>>(0);
  typename tier_type::local local;
  std::vector<void*> objects(magazines * magazine_capacity);
  rng random(3);
  tier_result result{};
  constexpr unsigned rounds = 5;
  for (unsigned round = 0; round <= rounds; ++round) {
    const double begin = cpu_ns();
    for (std::size_t at = 0; at < objects.size();)
      at += shared->tier.refill(local, &objects[at], std::min(magazine_capacity, objects.size() - at));
    const double filled = cpu_ns();
    shuffle(objects, random);
    const double shuffled = cpu_ns();
    for (std::size_t at = 0; at < objects.size(); at += magazine_capacity)
      shared->tier.flush(local, &objects[at], magazine_capacity);
    if (round == 0) continue;  // it makes the spans
    result.refill_ns += (filled - begin) / static_cast<double>(objects.size()) / rounds;
    result.flush_ns += (cpu_ns() - shuffled) / static_cast<double>(objects.size()) / rounds;
  }
  shared->tier.thread_end(local);
  return result;
}

template <typename item_type, typename cache_type>
struct node_allocator {
  using value_type = item_type;
  cache_type* cache;
  explicit node_allocator(cache_type* from) : cache(from) {}
  template <typename other_type>
  node_allocator(const node_allocator<other_type, cache_type>& other) : cache(other.cache) {}
  item_type* allocate(std::size_t count) {
    static_assert(sizeof(item_type) <= 32);
    if (count == 1) return static_cast<item_type*>(cache->allocate());
    return static_cast<item_type*>(::operator new(count * sizeof(item_type)));
  }
  void deallocate(item_type* items, std::size_t count) {
    if (count == 1) return cache->release(items);
    ::operator delete(items);
  }
  bool operator==(const node_allocator&) const = default;
};

struct reinsert_result {
  double erase_ns;
  double insert_again_ns;
};

// A million nodes of 32 bytes: insert all, erase in random order, insert all again.
template <typename tier_type>
reinsert_result reinsert(double scale) {
  const int count = static_cast<int>(1'000'000 * scale) + 1;
  auto shared = std::make_unique<shared_state<tier_type>>(8);
  using cache_type = thread_cache<tier_type>;
  cache_type cache(*shared);
  std::vector<int> order(static_cast<std::size_t>(count));
  for (int key = 0; key < count; ++key) order[static_cast<std::size_t>(key)] = key;
  rng random(7);
  shuffle(order, random);
  std::unordered_set<int, std::hash<int>, std::equal_to<int>, node_allocator<int, cache_type>> set(
      0, std::hash<int>(), std::equal_to<int>(), node_allocator<int, cache_type>(&cache));
  set.reserve(order.size());
  for (int key = 0; key < count; ++key) set.insert(key);
  const double begin = cpu_ns();
  for (const int key : order) set.erase(key);
  const double middle = cpu_ns();
  for (int key = 0; key < count; ++key) set.insert(key);
  const double end = cpu_ns();
  return {(middle - begin) / count, (end - middle) / count};
}

struct ring_result {
  double allocate_ns;
  double release_ns;
  double peak_megabytes;
};

// One thread allocates, another frees; batches of 256 pointers through a ring of 32.
template <typename tier_type>
ring_result ring(std::size_t depot_limit, double scale) {
  constexpr std::size_t batch = 256;
  constexpr std::size_t slots = 32;
  const std::size_t batches = static_cast<std::size_t>(8000 * scale) + 1;
  auto shared = std::make_unique<shared_state<tier_type>>(depot_limit);
  std::vector<std::array<void*, batch>> items(slots);
  alignas(64) std::atomic<std::size_t> written{0};
  alignas(64) std::atomic<std::size_t> read{0};
  const auto await = [](const auto& ready) {
    for (unsigned spins = 0; !ready(); ++spins) spins < 20 ? cpu_pause() : std::this_thread::yield();
  };
  const double clock_begin = cpu_ns();
  for (int call = 0; call < 1000; ++call) cpu_ns();
  const double clock_cost = (cpu_ns() - clock_begin) / 1001;
  double used[2] = {};
  start_together(2, [&](unsigned index, auto wait) {
    pin_to(index);  // on one processor the objects would not cross from cache to cache
    thread_cache<tier_type> cache(*shared);
    wait();
    double spent = 0;
    for (std::size_t count = 0; count < batches; ++count) {
      auto& slot = items[count % slots];
      if (index == 0) {
        await([&] { return count - read.load(std::memory_order_acquire) < slots; });
        const double begin = cpu_ns();
        for (void*& each : slot) {
          each = cache.allocate();
          *static_cast<std::uint64_t*>(each) = count;
        }
        spent += cpu_ns() - begin - clock_cost;
        written.store(count + 1, std::memory_order_release);
      } else {
        await([&] { return written.load(std::memory_order_acquire) > count; });
        const double begin = cpu_ns();
        for (void* each : slot) cache.release(each);
        spent += cpu_ns() - begin - clock_cost;
        read.store(count + 1, std::memory_order_release);
      }
    }
    used[index] = spent / static_cast<double>(batches * batch);
    wait();
  });
  return {used[0], used[1], static_cast<double>(shared->tier.spans().peak()) * span_megabytes};
}

// A heap of a million objects; bursts free random ones and allocate as many.
template <typename tier_type>
elapsed steady(unsigned threads, double scale) {
  const std::size_t objects = static_cast<std::size_t>(1'000'000 * scale) / threads + 16'384;
  constexpr std::size_t pairs = 400'000;
  auto shared = std::make_unique<shared_state<tier_type>>(8);
  const elapsed all = start_together(threads, [&](unsigned index, auto wait) {
    if (threads > 1) pin_to(index);  // the scheduler may else keep both on one processor for a while
    thread_cache<tier_type> cache(*shared);
    rng random(index + 1);
    std::vector<void*> live(objects);
    for (void*& each : live) {
      each = cache.allocate();
      *static_cast<std::uint64_t*>(each) = index;
    }
    std::vector<std::uint32_t> order(objects);
    for (std::size_t item = 0; item < objects; ++item) order[item] = static_cast<std::uint32_t>(item);
    shuffle(order, random);
    std::size_t at = 0;
    wait();
    for (std::size_t done = 0; done < pairs;) {
      const std::size_t burst = 1 + random.below(16'000);
      if (at + burst > objects) at = 0;
      for (std::size_t item = at; item < at + burst; ++item) cache.release(live[order[item]]);
      for (std::size_t item = at; item < at + burst; ++item) {
        live[order[item]] = cache.allocate();
        *static_cast<std::uint64_t*>(live[order[item]]) = item;
      }
      at += burst;
      done += burst;
    }
    wait();
    for (void* each : live) cache.release(each);
  });
  return per_pair(all, pairs * threads);
}

struct piling_result {
  double free_ns;
  double held_producer_asleep;  // megabytes in spans after the consumer freed everything and ended
  double held_producer_ended;
};

// A producer allocates 200 MB and falls asleep; a consumer frees all of it.
template <typename tier_type>
piling_result piling(double scale) {
  const std::size_t objects = static_cast<std::size_t>(3'125'000 * scale) + 1;
  auto shared = std::make_unique<shared_state<tier_type>>(8);
  std::vector<void*> items(objects);
  std::mutex lock;
  std::condition_variable changed;
  bool allocated = false;
  bool may_end = false;
  std::thread producer([&] {
    thread_cache<tier_type> cache(*shared);
    for (void*& each : items) each = cache.allocate();
    std::unique_lock guard(lock);
    allocated = true;
    changed.notify_all();
    changed.wait(guard, [&] { return may_end; });
  });
  piling_result result{};
  {
    std::unique_lock guard(lock);
    changed.wait(guard, [&] { return allocated; });
  }
  std::thread consumer([&] {
    thread_cache<tier_type> cache(*shared);
    const double begin = cpu_ns();
    for (void* each : items) cache.release(each);
    result.free_ns = (cpu_ns() - begin) / static_cast<double>(objects);
  });
  consumer.join();
  result.held_producer_asleep = static_cast<double>(shared->tier.spans().used()) * span_megabytes;
  {
    const std::lock_guard guard(lock);
    may_end = true;
    changed.notify_all();
  }
  producer.join();
  result.held_producer_ended = static_cast<double>(shared->tier.spans().used()) * span_megabytes;
  return result;
}

// Checks what the variants promise: no object is out twice, and at the end every span is back.
template <typename tier_type>
void check() {
  auto shared = std::make_unique<shared_state<tier_type>>(2);
  constexpr std::size_t slots = 4096;
  std::vector<std::atomic<std::uint64_t*>> exchange(slots);
  for (int life = 0; life < 3; ++life) {
    start_together(4, [&](unsigned index, auto wait) {
      thread_cache<tier_type> cache(*shared);
      rng random(index + 10 * static_cast<unsigned>(life) + 1);
      wait();
      std::vector<std::uint64_t*> mine;
      for (int step = 0; step < 60; ++step) {
        for (std::size_t count = random.below(2000); count != 0; --count) {
          auto* object = static_cast<std::uint64_t*>(cache.allocate());
          object[0] = reinterpret_cast<std::uintptr_t>(object) ^ index;
          object[1] = index;
          mine.push_back(object);
        }
        for (std::size_t count = mine.size() / 2; count != 0; --count) {
          std::swap(mine[random.below(mine.size())], mine.back());
          std::uint64_t* out = exchange[random.below(slots)].exchange(mine.back(), std::memory_order_acq_rel);
          mine.pop_back();
          if (out == nullptr) continue;
          if (out[0] != (reinterpret_cast<std::uintptr_t>(out) ^ out[1])) die("an object was out twice");
          out[0] = 0;
          cache.release(out);
        }
      }
      for (std::uint64_t* object : mine) {
        if (object[0] != (reinterpret_cast<std::uintptr_t>(object) ^ object[1]))
          die("an object was out twice");
        cache.release(object);
      }
      wait();
    });
  }
  {
    thread_cache<tier_type> cache(*shared);
    for (auto& slot : exchange)
      if (std::uint64_t* object = slot.load(std::memory_order_relaxed)) cache.release(object);
  }
  if (shared->tier.spans().used() != 0) die("spans are lost");
}

}  // namespace experiment
