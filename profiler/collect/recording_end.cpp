// SPDX-License-Identifier: MIT
// recording_end: what is examined while a process waits at its end: what its memory consists of, and which of its
// blocks can still be reached. The process waits as long as the collector shows signs of life.
#include <algorithm>
#include <optional>

#include "profiler/collect/leak_look.hpp"
#include "profiler/collect/recording.hpp"
#include "profiler/collect/recording_process.hpp"

namespace tarn::profiler {

namespace {

// A memory split may take 1 / split_share of the time.
constexpr std::uint64_t split_share = 50;
// When more memory is resident, or live, than at any split before, a split is made at once, up to 1 / growth_share of the time.
constexpr std::uint64_t growth_share = 20;
constexpr double growth = 1.05;

}  // namespace

// Why leaks cannot be determined: the collector does not know all blocks. Empty: they can.
std::string recording::no_leaks_because(const process_entry& process) const {
  if (settings_.mode == profile_mode::sample) return "mode sample records only some of the blocks";
  if (process.parent_serial != 0) return "a forked process has its parent's blocks, too";
  if (settings_.meta.contains("attached")) return "blocks from before tarn attach are not known";
  if (process.overwritten) return "the program has overwritten some of what its recorder told";
  if (process.memory->lost_events() > 0) return "events were lost";
  if (process.memory->page().silent_because.load(std::memory_order_relaxed) != silence::none)
    return "the recording ended before the program";
  return "";
}

void recording::split_memory(process_entry& process, std::uint64_t now) {
  // No split for a process without a file, and none after the last one, which look_at_end makes.
  if (process.looked_at_end || !is_worth_a_file(process)) return;
  const double resident = process.last.resident_bytes;
  const double live = process.model.live_bytes();
  const bool grows = (resident > growth * process.split_resident || live > growth * process.split_live) &&
                     process.split_spent_ns * growth_share <= now - process.start_ns;
  if (now < process.next_split_ns && !grows) return;
  const std::uint64_t begin = thread_clock_ns();
  process.memory_parts.take(process.pid, process.model, now - process.start_ns);
  process.split_resident = std::max(process.split_resident, resident);
  process.split_live = std::max(process.split_live, live);
  const std::uint64_t took = thread_clock_ns() - begin;
  process.split_spent_ns += took;
  process.next_split_ns = now + std::max(process.memory_parts.interval_ns(), took * split_share);
}

// Asks a process to wait at its end, if it is to be examined there.
void recording::ask_to_wait(process_entry& process) {
  if (!process.memory || process.asked) return;
  const bool is_main = process.pid == main_process_;
  if (!is_main && (settings_.mode != profile_mode::full || !is_worth_a_file(process))) return;
  process.asked = true;
  // relaxed: a process that ends before it sees this does not wait
  process.memory->asked_to_wait().store(1, std::memory_order_relaxed);
}

void recording::look_at_end(process_entry& process) {
  if (!process.memory || process.looked_at_end || !process.memory->waits_at_end()) return;
  // Another process may have got the same id since.
  const auto status = read_process(process.pid);
  if (!status || status->start_ticks != process.start_ticks) return;
  process.looked_at_end = true;
  process.jit.look_at(process.pid, process.start_ticks);
  std::uint64_t last_beat = raw_clock_ns();
  // Beats are limited to ten a second: a process that waits for the collector gives up after a number of beats
  // without progress.
  const auto progress = [this, &last_beat] {
    const std::uint64_t now = raw_clock_ns();
    if (now - last_beat < second_ns / 10) return;
    last_beat = now;
    // relaxed: only that it changes matters
    session_->header().beat.fetch_add(1, std::memory_order_relaxed);
  };
  const std::uint64_t begin = raw_clock_ns();
  process.leaks = {};
  process.leaks.problem = no_leaks_because(process);
  std::optional<stopped_process> stopped;
  if (process.leaks.problem.empty()) stopped.emplace(static_cast<pid_t>(process.pid));
  if (stopped && stopped->problem().empty()) {
    look_for_rings(process);
    drain_process(process, ~std::uint64_t{0} >> 1);
  }
  const double peak = read_kernel_peaks(process);
  process.is_peak_exact = peak > 0;
  raise_peak(process, peak);
  add_counters(process, true);
  process.memory_parts.take(process.pid, process.model, raw_clock_ns() - process.start_ns);
  if (stopped) {
    process.leaks = look_for_leaks({process.pid, process.memory->page().allocator_start, progress},
                                   process.model, *stopped);
    for (const lost_blocks& one : process.leaks.lost) process.model.set_lost(one);
  }
  stopped.reset();
  process.leak_look_ns = raw_clock_ns() - begin;
  // release, pairs with the process's acquire in process_ends: the examination is complete before the process goes
  // on
  process.memory->released().store(1, std::memory_order_release);
}

void recording::fill_leaks(process_entry& process, nlohmann::json& meta) const {
  std::string reason = process.leaks.problem;
  if (settings_.mode == profile_mode::faults) {
    reason = "mode faults knows no blocks";
  } else if (!process.looked_at_end) {
    reason = no_leaks_because(process);
    if (reason.empty() && process.superseded) reason = "the process has called exec";
    if (reason.empty()) reason = "the process did not end by exit, or ended before tarn could look";
  }
  meta["leaks"] = {{"known", reason.empty()}, {"reason", reason}};
  if (!reason.empty()) return;
  meta["leaks"]["threads"] = process.leaks.threads;
  meta["leaks"]["scanned_bytes"] = process.leaks.scanned_bytes;
  meta["leaks"]["look_ns"] = process.leak_look_ns;
}

}  // namespace tarn::profiler
