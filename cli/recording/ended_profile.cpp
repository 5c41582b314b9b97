// SPDX-License-Identifier: MIT
#include "cli/recording/ended_profile.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/recording/box_memory.hpp"
#include "profiler/collect/process_summary.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace {

using profiler::box_content;
using profiler::counter_row;
using profiler::memory_row;
using profiler::profile;

// Samples that were followed for others, as of buffers that came and went, say nothing of growth.
double bytes_per_live_sample(const box_content& box) {
  double samples = 0;
  for (const profiler::boxed_site& one : box.sites) samples += static_cast<double>(one.figures.live_samples);
  return samples > 0 ? std::max(box.sample_bytes, box.live_bytes() / samples) : box.sample_bytes;
}

// The peak that the parent is told is this process's own: it has had no child, whose peak it might be, and it is larger than that of this
// process, whose memory the process had before its exec.
bool is_own_peak(const box_readings& of, const box_end& end) {
  static const double of_parent = profiler::peak_resident_of(static_cast<std::uint32_t>(getpid()));
  return end.peak_resident && !of.has_had_children && *end.peak_resident > of_parent;
}

// What has become resident since the last look. What malloc has grown by, since what a program asks for, it writes: at most up to its
// peak, as a large table may not be written yet. One that was killed for memory was at its peak, and may have grown elsewhere, too;
// but the system may have taken some of its memory before it counted the peak.
double grown_since(const box_readings& of, const memory_row& last, const box_content& box,
                   const box_end& end) {
  constexpr double likely = 0.1;  // a larger difference is rather the peak of a child
  const double of_malloc = std::max(0.0, box.heap_in_use + box.heap_free - of.of_malloc);
  const double up_to_peak = end.peak_resident ? std::max(0.0, *end.peak_resident - last.sum()) : of_malloc;
  if (end.shortage != profiler::shortage::group) {
    // malloc's sums are of its last sample. What peaked after the last look has rather grown to the end.
    constexpr double unseen_samples = 8;
    const bool is_new_peak = is_own_peak(of, end) && *end.peak_resident > of.peak_resident;
    const double per_sample = std::min(bytes_per_live_sample(box), box.bytes_per_sample());
    if (is_new_peak && up_to_peak - of_malloc < unseen_samples * per_sample) return up_to_peak;
    return std::min(of_malloc, up_to_peak);
  }
  const double counted = last.sum() - last.files;
  const double room = of.limit > 0 ? std::max(0.0, of.limit - counted) : of_malloc;
  const bool is_of_process = is_own_peak(of, end) || up_to_peak < likely * end.peak_resident.value_or(0);
  return std::min(room, is_of_process ? std::max(of_malloc, up_to_peak) : of_malloc);
}

}  // namespace

profile ended_profile(const box_readings& of, const box_content& box, const box_end& end) {
  profile p = profiler::profile_of(box);
  nlohmann::json meta = p.meta;
  meta.update(of.place);
  if (of.limit > 0) meta["memory_limit_bytes"] = of.limit;
  meta["refused"] = p.meta["refused"];
  meta["command"] = profiler::process_name(box.arguments, box.program);
  const double live = box.live_bytes();
  p.counters = of.counters;
  p.memory.rows = of.memory;
  const std::uint64_t since_start = end.time_ns - std::min(end.time_ns, box.start_ns);
  if (!p.counters.empty()) {
    // What lived at the end is exact to the last sample; the rest is of the last look.
    counter_row last = p.counters.back();
    last.time_ns = std::max(last.time_ns + 1, since_start);
    last.live_bytes = live;
    last.live = box.live_blocks();
    p.counters.push_back(last);
  }
  if (!p.memory.rows.empty()) {
    memory_row last = p.memory.rows.back();
    last.time_ns = std::max(last.time_ns + 1, since_start);
    const double grown = grown_since(of, last, box, end);
    // Where malloc's memory lies apart, what is not malloc's is not part of the rest.
    const double of_malloc = std::clamp(box.heap_in_use + box.heap_free - of.of_malloc, 0.0, grown);
    last.kept += of_malloc;
    (box.heap_ranges.empty() ? last.mapped : last.other) += grown - of_malloc;
    last.resident_bytes = last.sum();
    const live_estimate alive = split_anonymous(last, box);
    if (box.heap_in_use + box.heap_free == 0) meta["malloc_untold"] = true;
    p.memory.rows.push_back(last);
    add_holders(p, last, alive, box);
  }
  const std::uint64_t end_ns = p.counters.empty() ? 0 : p.counters.back().time_ns;
  meta["duration_ns"] = end_ns;
  meta["peak_resident_bytes"] =
      is_own_peak(of, end) ? std::max(of.peak_resident, *end.peak_resident) : of.peak_resident;
  if (is_own_peak(of, end) && *end.peak_resident > of.peak_resident)
    meta["late_peak_bytes"] = *end.peak_resident;
  if (!of.rooms.empty()) meta["last_minutes"] = of.last_minutes();
  const auto& marked = of.marked[of.marks.used(end_ns)];
  meta["growth_from_ns"] = of.marks.time_ns(end_ns);
  for (std::size_t site = 0; site < p.sites.size(); ++site) {
    const auto found = marked.find(box.sites[site].figures.number);
    p.sites[site].figures.earlier_live_bytes = found != marked.end() ? found->second : 0;
  }
  if (const auto status = end.status) {
    meta["exit"] = WIFEXITED(*status) ? nlohmann::json({{"status", WEXITSTATUS(*status)}})
                                      : nlohmann::json({{"signal", WTERMSIG(*status)}});
    if (WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL) meta["out_of_memory"] = name_of(end.shortage);
  } else if (end.shortage == profiler::shortage::group) {
    meta["out_of_memory"] = name_of(end.shortage);
  }
  profiler::set_meta(p, std::move(meta));
  return p;
}

}  // namespace tarn::cli
