// SPDX-License-Identifier: MIT
// Scopes with a budget of 10 MiB, four threads at a time, each filled until it is full, beside a cache of 100 MiB in the
// general heap that goes on changing. At every moment the process has no more resident than the cache, the budgets and
// 64 KiB per thread; 10 ms after an end, 1 % of the scopes and the spans of survivors. All survivors are reported.
//
//     many_scopes [SCOPES]
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "../system_probes.hpp"
#include "tarn/scope.hpp"

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
constexpr std::size_t budget = 10 * mib;
constexpr int workers = 4;
constexpr int warm_rounds = 3;
// As many changes as 1,000 scopes see, over more than two intervals of the background thread. Without any scope the cache
// alone takes up to 712 KiB more meanwhile: its free blocks move, and fresh memory is prepared by steps of 256 KiB.
constexpr int settling_rounds = 250;

struct cache_entry {
  unsigned char* bytes;
  std::size_t size;
};

// The long-lived neighbour: blocks of 64 to 4,000 bytes, all written.
class cache {
 public:
  cache() {
    std::size_t bytes = 0;
    while (bytes < 100 * mib) {
      entries_.push_back(make());
      bytes += entries_.back().size;
    }
  }
  // Replaces some entries by ones of the same sizes. By one thread at a time.
  void change(int count) {
    for (int i = 0; i < count; ++i) {
      cache_entry& e = entries_[random_() % entries_.size()];
      std::free(e.bytes);
      e.bytes = static_cast<unsigned char*>(std::malloc(e.size));
      std::memset(e.bytes, static_cast<int>(e.size), e.size);
    }
  }
  [[nodiscard]] bool intact() const {
    return std::all_of(entries_.begin(), entries_.end(), [](const cache_entry& e) {
      return e.bytes[0] == static_cast<unsigned char>(e.size) && e.bytes[e.size - 1] == e.bytes[0];
    });
  }

 private:
  cache_entry make() {
    const std::size_t size = 64 + random_() % 3936;
    auto* const bytes = static_cast<unsigned char*>(std::malloc(size));
    std::memset(bytes, static_cast<int>(size), size);
    return {bytes, size};
  }
  std::mt19937 random_{1};
  std::vector<cache_entry> entries_;
};

struct worker {
  std::vector<void*> blocks;
  std::size_t survivors = 0;
  std::size_t held = 0;
  std::size_t filled = 0;
  double end_us = 0;
};

bool failed = false;
void check(bool holds, const char* what, std::size_t have, std::size_t most) {
  if (holds) return;
  if (!failed) std::printf("BROKEN: %s: %zu KiB, at most %zu KiB\n", what, have / kib, most / kib);
  failed = true;
}

// Fills a scope to its budget, frees all but a few blocks, and ends it.
void run_scope(worker& w, std::mt19937& random, std::barrier<>& full) {
  tarn::scope s("many", {.limit = budget});
  std::size_t left = random() % 4;
  std::vector<void*> stay;
  {
    const tarn::scope_entry in = s.enter();
    w.filled = 0;
    for (;;) {
      const std::size_t size = random() % 100 == 0 ? random() % 100000 : 16 + random() % 1000;
      void* const block = std::malloc(size);
      if (block == nullptr) break;
      std::memset(block, 1, size);
      w.blocks.push_back(block);
      w.filled += size;
    }
    full.arrive_and_wait();
    std::shuffle(w.blocks.begin(), w.blocks.end(), random);
  }
  while (w.blocks.size() > left) {
    std::free(w.blocks.back());
    w.blocks.pop_back();
  }
  const auto begin = std::chrono::steady_clock::now();
  const tarn::scope_report report = s.end();
  w.end_us += std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  if (report.blocks != left) {
    std::printf("BROKEN: %zu survivors, %llu reported\n", left,
                static_cast<unsigned long long>(report.blocks));
    failed = true;
  }
  w.survivors += left;
  w.held = report.held;
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = std::max(1, (count > 1 ? std::atoi(arguments[1]) : 40) / workers);
  cache neighbour;
  for (int r = 0; r < settling_rounds; ++r) {
    neighbour.change(200);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::vector<worker> all(workers);
  for (worker& w : all) w.blocks.reserve(100000);
  std::barrier<> full(workers);
  std::barrier<> step(workers + 1);
  std::atomic<std::size_t> base{0};
  std::atomic<std::size_t> most{0};
  std::atomic<bool> done{false};
  std::size_t most_after = 0;
  std::size_t held_sum = 0;
  // Looks as often as it can.
  std::thread sampler([&] {
    while (!done.load()) {
      if (base.load() != 0) most.store(std::max(most.load(), system_probes::resident_set()));
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < workers; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int r = 0; r < warm_rounds + rounds; ++r) {
        step.arrive_and_wait();
        run_scope(all[static_cast<std::size_t>(t)], random, full);
        step.arrive_and_wait();  // ended
        step.arrive_and_wait();  // measured
        for (void* const block : all[static_cast<std::size_t>(t)].blocks) std::free(block);
        all[static_cast<std::size_t>(t)].blocks.clear();
      }
    });
  }
  for (int r = 0; r < warm_rounds + rounds; ++r) {
    // The first scopes make structures that later ones use again.
    if (r == warm_rounds) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      base.store(system_probes::resident_set());
    }
    step.arrive_and_wait();
    neighbour.change(200);
    step.arrive_and_wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (r >= warm_rounds) {
      std::size_t held = 0;
      for (const worker& w : all) held += w.held;
      const std::size_t now = system_probes::resident_set();
      const std::size_t above = now > base ? now - base : 0;
      const std::size_t allowed = workers * budget / 100 + held;
      check(above <= allowed, "resident 10 ms after the ends", above, allowed);
      most_after = std::max(most_after, above > held ? above - held : 0);
      held_sum += held;
    }
    step.arrive_and_wait();
  }
  for (std::thread& t : threads) t.join();
  done.store(true);
  sampler.join();
  const std::size_t above = most.load() - base.load();
  const std::size_t allowed = workers * (budget + 64 * kib);
  check(above <= allowed, "resident at every moment", above, allowed);
  if (!neighbour.intact()) {
    std::printf("BROKEN: the cache is damaged\n");
    failed = true;
  }
  std::size_t survivors = 0;
  double end_us = 0;
  for (const worker& w : all) {
    survivors += w.survivors;
    end_us += w.end_us;
  }
  std::printf(
      "%d scopes of %zu MiB, base %zu MiB: at most %zu KiB above it (allowed %zu), 10 ms after an end %zu KiB "
      "besides survivors' spans; %zu survivors, all reported; an end takes %.0f us on average\n",
      rounds * workers, budget / mib, base.load() / mib, above / kib, allowed / kib, most_after / kib,
      survivors, end_us / ((rounds + warm_rounds) * workers));
  return failed ? 1 : 0;
}
