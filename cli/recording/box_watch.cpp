// SPDX-License-Identifier: MIT
#include "cli/recording/box_watch.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/launch/child_process.hpp"
#include "cli/recording/recording_setup.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/profile_verdict.hpp"
#include "profiler/analyze/symbols.hpp"
#include "profiler/collect/process_summary.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/model/store_profile.hpp"
#include "profiler/proc/proc_status.hpp"
#include "profiler/proc/process_maps.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

using profiler::box_content;
using profiler::counter_row;
using profiler::memory_row;
using profiler::profile;

constexpr double least_seconds_between_looks = 0.05;
constexpr double most_seconds_between_looks = 0.5;
constexpr std::size_t most_splits = 1024;
// Reading all mappings may take this part of the time.
constexpr double split_part = 0.01;

std::uint64_t since_start(const box_content& box) {
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const auto now_ns = static_cast<std::uint64_t>(now.count());
  return now_ns - std::min(now_ns, box.start_ns);
}

// PID-TICKS.box
bool split_name(const fs::path& path, std::uint32_t& process, std::uint64_t& ticks) {
  const std::string name = path.filename();
  const char* const end = name.data() + name.size();
  const auto first = std::from_chars(name.data(), end, process);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return false;
  const auto second = std::from_chars(first.ptr + 1, end, ticks);
  return second.ec == std::errc() &&
         std::string_view(second.ptr, static_cast<std::size_t>(end - second.ptr)) == ".box";
}

bool is_alive(std::uint32_t process, std::uint64_t start_ticks) {
  const auto now = profiler::read_process(process);
  return now && now->start_ticks == start_ticks && !now->has_ended();
}

std::vector<std::string> boxes_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::uint32_t process = 0;
    std::uint64_t ticks = 0;
    if (split_name(entry.path(), process, ticks)) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// What is resident, by kind; what has no file and is no stack is all `mapped`, until split_anonymous().
std::optional<memory_row> split_of(std::uint32_t process, std::uint64_t time_ns) {
  const auto mappings = profiler::read_mappings(process);
  if (!mappings) return std::nullopt;
  memory_row row;
  row.time_ns = time_ns;
  row.resident_bytes = profiler::resident_bytes_of(process);
  for (const profiler::mapping& one : *mappings) {
    const double in_files = one.resident_bytes - one.anonymous_bytes;
    if (one.name.starts_with("[stack")) {
      row.stacks += one.resident_bytes;
    } else if (one.shared) {
      row.shared += one.resident_bytes;
    } else if (one.is_file()) {
      row.files += in_files;
      row.written += one.anonymous_bytes;
    } else {
      row.mapped += one.resident_bytes;
    }
  }
  return row;
}

// What of it is malloc's, and what of that lives. malloc's pages in use may not all be resident, and what lives is an estimate:
// each is bounded by the whole that it is a part of.
void split_anonymous(memory_row& row, const box_content& box) {
  const double all = row.live + row.kept + row.mapped;
  const double of_malloc = std::min(all, box.heap_in_use + box.heap_free);
  row.live = std::min(box.live_bytes(), std::max(0.0, of_malloc - box.heap_free));
  row.kept = of_malloc - row.live;
  row.mapped = all - of_malloc;
  row.live_variance = box.bytes_per_sample() * row.live;
}

std::string name_of(const box_content& box) {
  return profiler::printable(profiler::process_name(box.arguments, box.program));
}

}  // namespace

box_watch::box_watch(std::string folder)
    : folder_(std::move(folder)),
      begun_(monotonic_seconds()),
      kills_{profiler::oom_kills(), profiler::oom_kills()} {}

void box_watch::read(readings& of, const box_content& box) {
  const auto status = profiler::read_process(of.process);
  if (!status || status->start_ticks != of.start_ticks || status->has_ended()) return;
  counter_row row;
  row.time_ns = since_start(box);
  row.resident_bytes = status->resident_bytes;
  row.live_bytes = box.live_bytes();
  row.live = box.live_blocks();
  row.faults = status->minor_faults;
  row.major_faults = status->major_faults;
  row.user_ns = status->user_ns;
  row.system_ns = status->system_ns;
  of.counters_line.add(of.counters, row);
  of.peak_resident = std::max(of.peak_resident, profiler::peak_resident_of(of.process));
  if (row.time_ns >= 2 * of.marks[1].time_ns) {
    of.marks[0] = std::exchange(of.marks[1], {row.time_ns, {}});
    for (const auto& one : box.sites)
      of.marks[1].live[one.site.number] = static_cast<double>(one.site.figures.live_bytes);
  }
  const double begin = monotonic_seconds();
  if (begin < of.next_split) return;
  if (auto split = split_of(of.process, row.time_ns)) {
    split_anonymous(*split, box);
    of.memory.push_back(*split);
    if (of.memory.size() > most_splits)
      of.memory.erase(of.memory.begin(), of.memory.begin() + most_splits / 2);
  }
  of.next_split = begin + (monotonic_seconds() - begin) / split_part;
}

void box_watch::look(pid_t program) {
  main_ = program;
  const double now = monotonic_seconds();
  if (now < next_look_) return;
  next_look_ = now + std::clamp((now - begun_) / 10, least_seconds_between_looks, most_seconds_between_looks);
  for (const std::string& path : boxes_in(folder_)) {
    std::string problem;
    const auto box = profiler::read_box(path, problem);
    if (!box) continue;
    readings& of = known_[path];
    of.process = box->process;
    of.start_ticks = box->start_ticks;
    read(of, *box);
  }
  kills_ = {kills_[1], profiler::oom_kills()};
  take_ended(false);
}

// Of the last look but one: the last may have come between the kill and the news of it.
bool box_watch::was_short() const { return profiler::oom_kills() > kills_[0]; }

profile box_watch::profile_from(const readings& of, const box_content& box) const {
  profile p = profiler::profile_of(box);
  nlohmann::json meta = p.meta;
  meta.update(describe_place({}));
  meta["refused"] = p.meta["refused"];
  meta["command"] = profiler::process_name(box.arguments, box.program);
  const double live = box.live_bytes();
  p.counters = of.counters;
  p.memory.rows = of.memory;
  if (!p.counters.empty()) {
    // What lived at the end is exact to the last sample; the rest is of the last look.
    counter_row last = p.counters.back();
    last.time_ns += 1;
    last.live_bytes = live;
    last.live = box.live_blocks();
    p.counters.push_back(last);
  }
  if (!p.memory.rows.empty()) {
    memory_row last = p.memory.rows.back();
    last.time_ns += 1;
    // malloc's growth since the last look was resident, too: what a program asks for, it writes.
    const double grown = std::max(0.0, box.heap_in_use + box.heap_free - last.live - last.kept - last.mapped);
    last.mapped += grown;
    last.resident_bytes += grown;
    split_anonymous(last, box);
    p.memory.rows.push_back(last);
    const double fit = live > 0 ? last.live / live : 0;
    for (std::size_t site = 0; site < p.sites.size(); ++site) {
      const double bytes = fit * p.sites[site].figures.live_bytes;
      if (bytes > 0)
        p.memory.parts.push_back({last.time_ns, "live", "", static_cast<std::uint32_t>(site + 1), bytes,
                                  box.bytes_per_sample() * bytes});
    }
  }
  const std::uint64_t end_ns = p.counters.empty() ? 0 : p.counters.back().time_ns;
  meta["duration_ns"] = end_ns;
  meta["peak_resident_bytes"] = of.peak_resident;
  // A mark lies between a quarter and three quarters of the time.
  const auto& mark = of.marks[4 * of.marks[1].time_ns <= 3 * end_ns ? 1 : 0];
  meta["growth_from_ns"] = mark.time_ns;
  for (std::size_t site = 0; site < p.sites.size(); ++site) {
    const auto found = mark.live.find(box.sites[site].site.number);
    p.sites[site].figures.earlier_live_bytes = found != mark.live.end() ? found->second : 0;
  }
  const bool is_main = static_cast<pid_t>(of.process) == main_;
  if (is_main) {
    meta["exit"] = WIFEXITED(main_status_) ? nlohmann::json({{"status", WEXITSTATUS(main_status_)}})
                                           : nlohmann::json({{"signal", WTERMSIG(main_status_)}});
  }
  const bool is_killed = !is_main || (WIFSIGNALED(main_status_) && WTERMSIG(main_status_) == SIGKILL);
  if (is_killed && !box.status && was_short()) {
    meta["exit"] = {{"signal", SIGKILL}};
    meta["killed_for_memory"] = true;
  }
  profiler::set_meta(p, std::move(meta));
  return p;
}

// Writes the profile, says so, and removes the box.
void box_watch::take(const std::string& path, readings& of, bool is_program) {
  std::string problem;
  const auto box = profiler::read_box(path, problem);
  if (!box) {
    print_note(fmt::format("a black box was left out: {}", problem));
  } else if (!is_program && box->status) {
    // Many a helper ends by exit(1), and means nothing by it.
  } else if (!is_program && written_ >= most_profiles) {
    ++dropped_;
  } else {
    profile p = profile_from(of, *box);
    profiler::add_symbols(p);
    ++written_;
    const std::string beginning = fmt::format("{}/{}-{}", folder_, name_of(*box), box->process);
    for (int number = 1;; ++number) {
      const std::string file =
          number == 1 ? beginning + ".prof" : fmt::format("{}-{}.prof", beginning, number);
      try {
        profiler::table_writer out(file, profiler::table_writer::start::fresh);
        profiler::store_profile(out, p);
        profiler::make_printable(p);
        print_box_verdict(p, file);
        break;
      } catch (const profiler::file_exists&) {
      } catch (const profiler::profile_error& error) {
        print_note(fmt::format("the box stays: {}", error.what()));
        return;
      }
    }
  }
  unlink(path.c_str());
}

void box_watch::take_ended(bool is_main) {
  for (auto at = known_.begin(); at != known_.end();) {
    const auto& [path, of] = *at;
    const bool is_program = static_cast<pid_t>(of.process) == main_;
    const bool has_ended = is_program || !is_alive(of.process, of.start_ticks);
    if (!has_ended || is_program != is_main) {
      ++at;
      continue;
    }
    // It has gone with a process that ended by exit(0).
    if (access(path.c_str(), F_OK) == 0) take(path, at->second, is_program);
    at = known_.erase(at);
  }
}

void box_watch::take_old() {
  std::vector<std::string> paths = boxes_in(folder_);
  for (const std::string& path : paths) {
    readings of;
    if (!split_name(path, of.process, of.start_ticks) || is_alive(of.process, of.start_ticks)) continue;
    take(path, of, false);
  }
}

void box_watch::finish() {
  // Processes that the last look has not seen.
  for (const std::string& path : boxes_in(folder_)) {
    if (known_.contains(path)) continue;
    readings of;
    if (split_name(path, of.process, of.start_ticks)) known_[path] = of;
  }
  take_ended(false);
  take_ended(true);
  if (dropped_ > 0)
    print_note(fmt::format("{} more processes were killed; their boxes were dropped", dropped_));
}

}  // namespace tarn::cli
