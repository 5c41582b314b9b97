// SPDX-License-Identifier: MIT
#include "profiler/collect/process_watch.hpp"

#include <algorithm>

#include "profiler/proc/ticks.hpp"

namespace tarn::profiler {

namespace {

constexpr std::uint64_t look_every_ns = second_ns / 20;
constexpr std::uint64_t names_every_ns = second_ns;
// Least time per process between two readings of its counters, so that reading all of them takes a few per cent of
// a processor.
constexpr std::uint64_t least_ns_between_counters = 500'000;
// Checkpoints may take 1 / checkpoint_share of the time.
constexpr std::uint64_t checkpoint_share = 50;

// Splits may take 1 / split_share of the time.
constexpr std::uint64_t split_share = 50;
// Those that growth causes, 1 / growth_share of it.
constexpr std::uint64_t growth_share = 20;
constexpr double growth = 1.05;

}  // namespace

bool process_watch::is_look_due(std::uint64_t now) {
  if (now < next_look_ns_) return false;
  next_look_ns_ = now + look_every_ns;
  return true;
}

bool process_watch::are_names_due(std::uint64_t now, std::uint64_t start_ns) {
  if (now < next_names_ns_) return false;
  next_names_ns_ = now + std::clamp(now - start_ns, look_every_ns, names_every_ns);
  return true;
}

void process_watch::plan_counters(std::uint64_t now, std::size_t processes) {
  next_counters_ns_ = now + std::max(counters_.interval_ns(), processes * least_ns_between_counters);
}

void process_watch::plan_checkpoint(std::uint64_t now, std::uint64_t took_ns, std::uint64_t least_ns) {
  next_checkpoint_ns_ = now + std::max(least_ns, took_ns * checkpoint_share);
}

void process_watch::split_memory_when_due(std::uint32_t process, const process_model& model, double resident,
                                          std::uint64_t time_ns, const std::function<void()>& meanwhile) {
  const double live = model.live_bytes();
  const bool grows = (resident > growth * split_resident_ || live > growth * split_live_) &&
                     split_spent_ns_ * growth_share <= time_ns;
  if (time_ns < next_split_ns_ && !grows) return;
  const std::uint64_t begin = thread_clock_ns();
  std::uint64_t others_ns = 0;
  memory_.take(process, model, time_ns, [&meanwhile, &others_ns] {
    const std::uint64_t before = thread_clock_ns();
    meanwhile();
    others_ns += thread_clock_ns() - before;
  });
  split_resident_ = std::max(split_resident_, resident);
  split_live_ = std::max(split_live_, live);
  const std::uint64_t took = thread_clock_ns() - begin - others_ns;
  split_spent_ns_ += took;
  next_split_ns_ = time_ns + std::max(memory_.interval_ns(), took * split_share);
}

void process_watch::set_leaks(leak_answer answer, std::uint64_t took_ns) {
  leaks_ = std::move(answer);
  leak_look_ns_ = took_ns;
}

void process_watch::fill_leaks(nlohmann::json& meta, const std::string& reason) const {
  const std::string& because = seen_end_ ? leaks_.problem : reason;
  meta["leaks"] = {{"known", because.empty()}, {"reason", because}};
  if (!because.empty()) return;
  meta["leaks"]["threads"] = leaks_.threads;
  meta["leaks"]["scanned_bytes"] = leaks_.scanned_bytes;
  meta["leaks"]["look_ns"] = leak_look_ns_;
}

}  // namespace tarn::profiler
