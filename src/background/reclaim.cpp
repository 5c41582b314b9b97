// SPDX-License-Identifier: MIT
#include "background/reclaim.hpp"

#include <algorithm>
#include <atomic>

#include "background/warm_blocks.hpp"
#include "engine/front.hpp"
#include "engine/instance.hpp"
#include "os/clock.hpp"

namespace tarn::engine {

namespace {

// The end of the time in which nothing is expected in others' caches; now_ns().
constinit std::atomic<std::int64_t> rests_until{0};

// What the thread itself may have freed, and what others have left in scopes and buffer pools.
void reclaim_own() {
  for_each_front([](const front& e) {
    if (!e.reclaim_walks) e.reclaim();
  });
  if (local_cache != &no_cache) local_cache->flush_all();
  central_tier.flush_idle_magazines(true);
  central_tier.release_spares(true);
  warm_blocks::release();
}

}  // namespace

bool reclaim_tries::goes_on() {
  if (tries_ == most_tries || (tries_ != 0 && is_brief_)) return false;
  if (tries_++ == 0) {
    began_ = os::now_ns();
    is_brief_ = began_ < rests_until.load(std::memory_order_relaxed);
  }
  const std::size_t before = heap.frees();
  refused_.wait();
  if (!is_brief_) {
    central_tier.depots().use_inherited();
    reclaim();
    return true;
  }
  // Objects alone are of no use: those of its own class the request has found. (The hardened build's caller has just freed
  // what was in quarantine.)
  reclaim_own();
  const bool found = heap.frees() != before;
  return found || hardened_build;
}

void reclaim_tries::end_in_vain() const {
  constexpr std::int64_t longest_rest_ns = 250'000'000;
  constexpr std::int64_t rest_for_work = 32;
  if (is_brief_) return;
  const std::int64_t now = os::now_ns();
  rests_until.store(now + std::min(rest_for_work * (now - began_), longest_rest_ns),
                    std::memory_order_relaxed);
}

void reclaim() {
  for_each_front([](const front& e) { e.reclaim(); });
  if (local_cache != &no_cache) local_cache->flush_all();
  registry.for_each([](thread_cache& cache) { cache.take_surplus(false); });
  registry.empty_resting(true);
  processors.drain(true);
  central_tier.flush_idle_magazines(true);
  central_tier.release_spares(true);
  warm_blocks::release();
}

std::size_t trim(std::size_t keep) {
  reclaim();
  const std::size_t idle = keep == 0 ? central_tier.purge_idle_pages(true) : 0;
  return idle + heap.trim(keep);
}

}  // namespace tarn::engine
