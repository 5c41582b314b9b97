// SPDX-License-Identifier: MIT
#include "os/memory_pressure.hpp"

#include <algorithm>
#include <string_view>

#include "base/text.hpp"
#include "base/units.hpp"
#include "os/input_file.hpp"

namespace tarn::os {
namespace {

// Version 1 writes "no limit" as the largest number of whole pages.
constexpr std::uint64_t least_unlimited = std::uint64_t{1} << 62;
// Stalled: in at least this part of the last ten seconds some task stood still; in hundredths of a percent.
constexpr std::uint64_t stalled_from = 1000;
constexpr std::size_t longest_path = memory_look::longest_path;

// The lines of a file; none if its path is too long.
class text_lines {
 public:
  text_lines(memory_look& room, std::string_view folder, const char* file)
      : lines_(path_in(room, folder, file), room.chunk, sizeof room.chunk, room.line, longest_path) {}
  bool next(std::string_view& line) { return lines_.next(line); }

 private:
  static const char* path_in(memory_look& room, std::string_view folder, const char* file) {
    text_writer path(room.line, longest_path);
    path.put(folder).put(file).put('\0');
    return path.size() <= longest_path ? room.line : nullptr;
  }

  lines_in lines_;
};

// ---- text ----

// The number at the beginning of the text; `otherwise` if there is no digit.
std::uint64_t number_in(std::string_view text, std::uint64_t otherwise) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return otherwise;
  std::uint64_t value = 0;
  return take_number(text, value) ? value : unlimited;
}

bool lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (take_until(list, ',') == word) return true;
  }
  return false;
}

// ---- files ----

std::uint64_t number_in_file(memory_look& room, std::string_view folder, const char* file,
                             std::uint64_t otherwise) {
  text_lines lines(room, folder, file);
  std::string_view line;
  return lines.next(line) ? number_in(line, otherwise) : otherwise;
}

// The number behind `key` in a file with lines "key 123" or "key:   123 kB".
std::uint64_t number_behind(memory_look& room, std::string_view folder, const char* file,
                            std::string_view key) {
  text_lines lines(room, folder, file);
  std::string_view line;
  while (lines.next(line)) {
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return number_in(line, 0);
  }
  return 0;
}

// Whether "some avg10=12.34 avg60=…" in the file reaches stalled_from.
bool is_stalled(memory_look& room, std::string_view folder, const char* file) {
  text_lines lines(room, folder, file);
  std::string_view line;
  constexpr std::string_view start = "some avg10=";
  while (lines.next(line)) {
    if (!line.starts_with(start)) continue;
    line.remove_prefix(start.size());
    const std::uint64_t percent = number_in(take_until(line, '.'), 0);
    return percent * 100 + number_in(part_of(line, 0, 2), 0) >= stalled_from;
  }
  return false;
}

// ---- control groups ----

// The names of the files of one version of control groups.
struct group_files {
  std::string_view type;  // of the file system
  const char* limit;
  const char* soft_limit;
  const char* used;
  std::string_view idle;  // in memory.stat
  const char* pressure;
};
constexpr group_files version_1 = {
    "cgroup", "/memory.limit_in_bytes", nullptr, "/memory.usage_in_bytes", "total_inactive_file", nullptr};
constexpr group_files version_2 = {"cgroup2",         "/memory.max",   "/memory.high",
                                   "/memory.current", "inactive_file", "/memory.pressure"};

// The path of the process's group in its hierarchy, in room.group: "0::/path" or "5:cpu,memory:/path". Empty: none, or
// it is too long.
std::string_view find_group(const char* root, const char* process, bool second, memory_look& room) {
  text_writer folder(room.folder, longest_path);
  folder.put(root).put("/proc/").put(process);
  text_lines lines(room, {folder.data(), folder.stored()}, "/cgroup");
  std::string_view line;
  while (lines.next(line)) {
    const std::string_view number = take_until(line, ':');
    const std::string_view controllers = take_until(line, ':');
    if (second ? number == "0" && controllers.empty() : lists(controllers, "memory")) {
      text_writer group(room.group, longest_path);
      group.put(line);
      return {room.group, group.size() < longest_path ? group.size() : 0};
    }
  }
  return {};
}

// The folder of the group `group` in its mounted hierarchy, in room.folder; empty: it is not mounted. `top`: the length of
// the part that is the mount point.
// A line is: number, parent, device, root of the mount, mount point, options, …, "-", type, source, options.
std::string_view find_folder(const char* root, const group_files& files, std::string_view group,
                             memory_look& room, std::size_t& top) {
  text_lines lines(room, root, "/proc/self/mountinfo");
  std::string_view line;
  while (lines.next(line)) {
    for (int i = 0; i < 3; ++i) take_until(line, ' ');
    const std::string_view mounted_root = take_until(line, ' ');
    const std::string_view mount_point = take_until(line, ' ');
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    line.remove_prefix(dash + 3);
    if (take_until(line, ' ') != files.type) continue;
    take_until(line, ' ');
    if (&files == &version_1 && !lists(line, "memory")) continue;
    text_writer out(room.folder, longest_path);
    out.put(root).put(mount_point);
    top = out.size();
    // In a container the mount shows the container's group as its root, and may show a root outside the group's path.
    std::string_view below = group;
    if (mounted_root != "/") {
      below.remove_prefix(below.starts_with(mounted_root) ? mounted_root.size() : below.size());
    }
    if (below.find("..") == std::string_view::npos && below != "/") out.put(below);
    return {room.folder, out.size() < longest_path ? out.size() : 0};
  }
  return {};
}

void note_limit(memory_state& state, std::uint64_t limit, std::uint64_t used) {
  if (limit < state.limits.limit) state.limits = {limit, used};
  if (used >= near(limit)) state.pressed = true;
}

// May be negative.
std::int64_t room_of(const memory_limits& group) {
  return static_cast<std::int64_t>(std::min(near(group.limit), least_unlimited)) -
         static_cast<std::int64_t>(std::min(group.used, least_unlimited));
}

void note_group(memory_state& state, std::uint64_t limit, std::uint64_t used) {
  note_limit(state, limit, used);
  const memory_limits group{limit, used};
  if (state.group.limit == unlimited || room_of(group) < room_of(state.group)) state.group = group;
}

void look_at_group(std::string_view folder, const group_files& files, memory_look& room,
                   memory_state& state) {
  std::uint64_t limit = number_in_file(room, folder, files.limit, unlimited);
  if (files.soft_limit != nullptr) {
    limit = std::min(limit, number_in_file(room, folder, files.soft_limit, unlimited));
  }
  if (limit >= least_unlimited) return;
  const std::uint64_t used = number_in_file(room, folder, files.used, 0);
  note_group(state, limit, used - std::min(number_behind(room, folder, "/memory.stat", files.idle), used));
}

void look_at_groups(const char* root, const char* process, const group_files& files, memory_look& room,
                    memory_state& state) {
  const std::string_view group = find_group(root, process, &files == &version_2, room);
  if (group.empty()) return;
  std::size_t top = 0;
  std::string_view folder = find_folder(root, files, group, room, top);
  if (folder.empty()) return;
  if (files.pressure != nullptr && is_stalled(room, folder, files.pressure)) state.pressed = true;
  for (;;) {
    look_at_group(folder, files, room, state);
    if (folder.size() <= top) return;
    folder = part_of(folder, 0, std::max(folder.rfind('/'), top));
  }
}

void look_at_machine(const char* root, memory_look& room, memory_state& state) {
  const std::uint64_t total = number_behind(room, root, "/proc/meminfo", "MemTotal:") * kib;
  const std::uint64_t available = number_behind(room, root, "/proc/meminfo", "MemAvailable:") * kib;
  if (total != 0 && available != 0) note_limit(state, total, total - std::min(available, total));
  if (is_stalled(room, root, "/proc/pressure/memory")) state.pressed = true;
}

}  // namespace

memory_state look_at_memory(const char* root, memory_look& room, const char* process) {
  memory_state state;
  look_at_machine(root, room, state);
  look_at_groups(root, process, version_1, room, state);
  look_at_groups(root, process, version_2, room, state);
  return state;
}

}  // namespace tarn::os
