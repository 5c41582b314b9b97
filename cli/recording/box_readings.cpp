// SPDX-License-Identifier: MIT
#include "cli/recording/box_readings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "cli/launch/child_process.hpp"
#include "cli/recording/box_files.hpp"
#include "cli/recording/box_memory.hpp"
#include "cli/recording/recording_setup.hpp"
#include "profiler/collect/process_summary.hpp"
#include "profiler/proc/proc_status.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

using profiler::box_content;
using profiler::counter_row;

constexpr std::size_t most_splits = 1024;
constexpr double remembered_seconds = 600;
constexpr double seconds_between_rooms = 5;

std::uint64_t since_start(const box_content& box) {
  const std::uint64_t now = now_since_1970();
  return now - std::min(now, box.start_ns);
}

std::string target_of(const std::string& link) {
  std::error_code error;
  return fs::read_symlink(link, error).string();
}

// Whether the process has mapped the file, by its number, or by its name where the file system shows another number (overlayfs).
// True if that cannot be known.
bool has_mapped(std::uint32_t process, std::uint64_t file, const std::string& path) {
  const std::string name = '/' + fs::path(path).filename().string();
  std::istringstream lines(profiler::proc_text(process, "maps"));
  bool is_known = false;
  std::string range, rights, offset, device, number;
  for (std::string line; std::getline(lines, line); is_known = true) {
    std::istringstream words(line);
    if (words >> range >> rights >> offset >> device >> number && number == std::to_string(file)) return true;
    if (line.ends_with(name)) return true;
  }
  return !is_known;
}

// When the process with this box began, as it is seen from here: in another namespace of times it is another time. 0: there is none.
std::uint64_t ticks_here(std::uint32_t process, std::uint64_t start_ticks, const std::string& path) {
  const auto now = process != 0 ? profiler::read_process(process) : std::nullopt;
  if (!now || now->start_ticks == start_ticks) return now ? start_ticks : 0;
  const std::string times = target_of(fmt::format("/proc/{}/ns/time", process));
  const bool is_near = times.empty() || times == target_of("/proc/self/ns/time");
  return !is_near && has_mapped(process, file_number(path), path) ? now->start_ticks : 0;
}

std::string name_of_namespace(const box_content& box) { return fmt::format("pid:[{}]", box.pid_namespace); }

// The id, in this process's namespace, of the process that knows itself by another one; 0: it is not here.
std::uint32_t find_here(const box_content& box, const std::string& path) {
  for (const std::uint32_t each : profiler::numbers_in("/proc")) {
    if (ticks_here(each, box.start_ticks, path) == 0) continue;
    if (target_of(fmt::format("/proc/{}/ns/pid", each)) != name_of_namespace(box)) continue;
    const std::string ids = profiler::status_line(profiler::proc_text(each, "status"), "NSpid");
    if (ids.substr(ids.find_last_of(" \t") + 1) == std::to_string(box.process)) return each;
  }
  return 0;
}

// The id, in this process's namespace, of the box's process; 0: it is not here.
std::uint32_t process_of(const box_content& box, const std::string& path) {
  const std::string own = target_of("/proc/self/ns/pid");
  const bool is_near = box.pid_namespace == 0 || own == name_of_namespace(box);
  return is_near ? box.process : find_here(box, path);
}

process_end end_of(const box_content& box, const std::string& path) {
  const std::uint32_t process = process_of(box, path);
  const std::uint64_t ticks = ticks_here(process, box.start_ticks, path);
  return {process, ticks != 0 ? ticks : box.start_ticks};
}

}  // namespace

std::uint64_t now_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

box_readings::box_readings(const std::string& path, const box_content& box,
                           const profiler::memory_kills& counted)
    : end(end_of(box, path)),
      name(profiler::process_name(box.arguments, box.program)),
      start_ns(box.start_ns),
      kills(counted) {
  if (!end.is_alive()) {
    place = describe_place({});
    return;
  }
  place = describe_place({}, std::to_string(end.process()));
}

bool box_readings::is_of_earlier_image(const std::string& path) const {
  return end.is_alive() && !has_mapped(end.process(), file, path) && end.is_alive();
}

void box_readings::read(const box_content& box) {
  const auto status = profiler::read_process(end.process());
  if (!status || status->start_ticks != end.start_ticks() || status->has_ended()) return;
  note_group();
  counter_row row;
  row.time_ns = since_start(box);
  row.resident_bytes = status->resident_bytes;
  row.live_bytes = box.live_bytes();
  row.live = box.live_blocks();
  row.faults = status->minor_faults;
  row.major_faults = status->major_faults;
  row.user_ns = status->user_ns;
  row.system_ns = status->system_ns;
  counters_line.add(counters, row);
  has_had_children = has_had_children || status->ended_children.minor_faults > 0 ||
                     !profiler::children_of(end.process()).empty();
  peak_resident = std::max(peak_resident, profiler::peak_resident_of(end.process()));
  if (marks.pass(row.time_ns)) {
    marked[0] = std::exchange(marked[1], {});
    for (const auto& one : box.sites)
      marked[1][one.figures.number] = static_cast<double>(one.figures.live_bytes);
  }
  auto split = split_of(end.process(), row.time_ns, box, stack_lengths);
  if (!split) return;
  split_anonymous(*split, box);
  memory.push_back(*split);
  of_malloc = box.heap_in_use + box.heap_free;
  if (memory.size() > most_splits) memory.erase(memory.begin(), memory.begin() + most_splits / 2);
}

void box_readings::note_group() {
  const std::string before = kills.group();
  const bool is_shown = kills.look(end.process());
  if (kills.group() != before) rooms.clear();
  if (!is_shown) return;
  const os::memory_limits group = os::look_at_memory("", std::to_string(end.process()).c_str()).group;
  limit = group.limit != os::unlimited ? static_cast<double>(group.limit) : 0;
  if (limit == 0) return;
  // The last look always, those before some seconds apart.
  const std::size_t count = rooms.size();
  if (count >= 2 && rooms[count - 1].seconds - rooms[count - 2].seconds < seconds_between_rooms)
    rooms.pop_back();
  rooms.push_back({monotonic_seconds(), group});
  while (rooms.front().seconds < rooms.back().seconds - remembered_seconds) rooms.pop_front();
}

nlohmann::json box_readings::last_minutes() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const room& one : rooms)
    rows.push_back({rooms.back().seconds - one.seconds, one.group.used, one.group.limit});
  return rows;
}

}  // namespace tarn::cli
