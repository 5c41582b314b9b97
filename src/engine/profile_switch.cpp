// SPDX-License-Identifier: MIT
#include "engine/profile_switch.hpp"

#include <atomic>

#include "engine/front.hpp"
#include "engine/instance.hpp"
#include "os/process_fence.hpp"

namespace tarn::engine {

namespace {

// Of all caches, also those of scopes. False: some thread may have overwritten it.
bool expire_all_countdowns() {
  bool all = registry.expire_countdowns();
  for_each_front([&all](const front& e) { all = e.expire_countdowns() && all; });
  return all;
}

}  // namespace

void follow_profile_option() {
  static constinit std::atomic<std::uint32_t> followed_epoch{0};
  const std::uint32_t epoch = profile_samples.epoch();
  if (followed_epoch.exchange(epoch, std::memory_order_relaxed) == epoch) return;
#if TARN_TSAN
  // It would report the accesses that class_countdown explains.
  if (local_cache != &no_cache) local_cache->expire_countdowns();
  return;
#endif
  // A thread that allocates meanwhile may overwrite it: after the fence it has done so, and its countdowns expire again.
  // Without a fence the second time is likely to be enough.
  constexpr int tries = 3;
  for (int i = 0; i < tries && !expire_all_countdowns(); ++i) os::process_fence();
}

}  // namespace tarn::engine
