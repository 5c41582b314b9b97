// SPDX-License-Identifier: MIT
#include "engine/profile_switch.hpp"

#include <atomic>

#include "engine/front.hpp"
#include "engine/instance.hpp"
#include "os/process_fence.hpp"

namespace tarn::heap_profile {

namespace {

// False: some thread may have overwritten it.
bool hurry_all() {
  bool all = engine::registry.hurry_all();
  engine::for_each_front([&all](const engine::front& e) { all = e.hurry() && all; });
  return all;
}

}  // namespace

void reach_all_threads() {
  static constinit std::atomic<std::uint32_t> reached_epoch{0};
  const std::uint32_t epoch = engine::profile_samples.epoch();
  if (reached_epoch.exchange(epoch, std::memory_order_relaxed) == epoch) return;
  // A thread that allocates while it is hurried may overwrite that: after the fence it has done so, and is hurried
  // again. Without a fence the second time is likely to be enough.
  constexpr int tries = 3;
#if TARN_TSAN
  // It would report the accesses that class_countdown explains.
  if (engine::local_cache != &engine::no_cache) engine::local_cache->hurry();
  return;
#endif
  for (int i = 0; i < tries && !hurry_all(); ++i) os::process_fence();
}

}  // namespace tarn::heap_profile
