// SPDX-License-Identifier: MIT
#include "cli/recording/box_watch.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "cli/launch/child_process.hpp"
#include "cli/recording/recording_setup.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/profile_verdict.hpp"
#include "profiler/analyze/symbols.hpp"
#include "profiler/collect/process_summary.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/model/recorded_command.hpp"
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
// Looks may take this part of the time.
constexpr double look_part = 0.01;
constexpr std::size_t most_splits = 1024;
constexpr double remembered_seconds = 600;
constexpr double seconds_between_rooms = 5;
// What a process must hold to be told of if nobody knows how it ended.
constexpr double noticeable_bytes = 1 << 20;
constexpr std::size_t longest_name = 100;

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

// 0: the file is gone.
std::uint64_t number_of(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

bool is_file_of(const open_file& file, const std::string& path) {
  struct stat opened {};
  return fstat(file.number(), &opened) == 0 && opened.st_ino == number_of(path);
}

std::string target_of(const std::string& link) {
  std::error_code error;
  return fs::read_symlink(link, error).string();
}

// The id, in this process's namespace, of the process that knows itself by another one; 0: it is not here.
std::uint32_t find_here(std::uint32_t inner, std::uint64_t start_ticks) {
  for (const std::uint32_t each : profiler::numbers_in("/proc")) {
    const auto now = profiler::read_process(each);
    if (!now || now->start_ticks != start_ticks) continue;
    const std::string ids = profiler::status_line(profiler::proc_text(each, "status"), "NSpid");
    if (ids.substr(ids.find_last_of(" \t") + 1) == std::to_string(inner)) return each;
  }
  return 0;
}

// The file that the process executes, whatever has become of its name.
std::array<std::uint64_t, 2> image_of(std::uint32_t process) {
  struct stat found {};
  if (stat(fmt::format("/proc/{}/exe", process).c_str(), &found) != 0) return {};
  return {found.st_dev, found.st_ino};
}

open_file handle_of(std::uint32_t process) {
  return open_file(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
}

// How a process has ended, also one that somebody else has waited for. Empty: it runs, or the kernel does not tell.
std::optional<int> end_by(const open_file& handle) {
  struct {
    std::uint64_t mask = 1U << 3;  // PIDFD_INFO_EXIT
    std::uint64_t group = 0;
    std::uint32_t ids[11] = {};
    std::int32_t exit_code = 0;
  } info;
  static_assert(sizeof info == 64);
  constexpr unsigned long get_info = _IOC(_IOC_READ | _IOC_WRITE, 0xff, 11, sizeof info);
  if (handle.number() < 0 || ioctl(handle.number(), get_info, &info) != 0 || (info.mask & (1U << 3)) == 0)
    return std::nullopt;
  return info.exit_code;
}

// The same of a process that nobody has waited for yet.
std::optional<int> end_of_zombie(std::uint32_t process, std::uint64_t start_ticks) {
  const auto now = profiler::read_process(process);
  if (!now || now->start_ticks != start_ticks || !now->has_ended()) return std::nullopt;
  const std::string text = profiler::proc_text(process, "stat");
  const std::size_t last = text.find_last_of(' ');
  int code = 0;
  const auto read =
      std::from_chars(text.data() + std::min(text.size(), last + 1), text.data() + text.size(), code);
  return read.ec == std::errc() ? std::optional(code) : std::nullopt;
}

// Whether the process has mapped the file. True if that cannot be known.
bool has_mapped(std::uint32_t process, std::uint64_t file) {
  std::istringstream lines(profiler::proc_text(process, "maps"));
  bool is_known = false;
  std::string range, rights, offset, device, number;
  for (std::string line; std::getline(lines, line); is_known = true) {
    std::istringstream words(line);
    if (words >> range >> rights >> offset >> device >> number && number == std::to_string(file)) return true;
  }
  return !is_known;
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

// What of it is malloc's, and what of that lives: the part of which there are samples, and the other. malloc's pages in use may not
// all be resident, and what lives is an estimate: each is bounded by the whole that it is a part of.
struct live_parts {
  double sampled;
  double unsampled;
};
live_parts split_anonymous(memory_row& row, const box_content& box) {
  const double all = row.live + row.kept + row.mapped;
  const double of_malloc = std::min(all, box.heap_in_use + box.heap_free);
  const double most = std::max(0.0, of_malloc - box.heap_free);
  double unsampled = 0;
  for (const auto& [name, bytes] : box.unsampled()) unsampled += bytes;
  live_parts parts{std::min(box.live_bytes(), most), 0};
  parts.unsampled = std::min(unsampled, most - parts.sampled);
  row.live = parts.sampled + parts.unsampled;
  row.kept = of_malloc - row.live;
  row.mapped = all - of_malloc;
  row.live_variance = box.bytes_per_sample() * parts.sampled;
  return parts;
}

// The parts of `row` by who holds them.
void add_holders(profile& p, const memory_row& row, const live_parts& live, const box_content& box) {
  const auto add = [&](const std::string& name, std::size_t site, double bytes, double variance) {
    if (bytes > 0)
      p.memory.parts.push_back(
          {row.time_ns, "live", name, static_cast<std::uint32_t>(site), bytes, variance});
  };
  const double fit = box.live_bytes() > 0 ? live.sampled / box.live_bytes() : 0;
  for (std::size_t site = 0; site < p.sites.size(); ++site) {
    const double bytes = fit * p.sites[site].figures.live_bytes;
    add("", site + 1, bytes, box.bytes_per_sample() * bytes);
  }
  double whole = 0;
  for (const auto& [name, bytes] : box.unsampled()) whole += bytes;
  for (const auto& [name, bytes] : box.unsampled()) add(name, 0, bytes * live.unsampled / whole, 0);
}

// For a file's name.
std::string name_of(const box_content& box) {
  std::string name =
      profiler::printable(profiler::process_name(box.arguments, box.program)).substr(0, longest_name);
  if (name.starts_with('.')) name.front() = '_';
  return fmt::format("{}-{}", name, box.process);
}

}  // namespace

std::string box_folder(const std::string& given) {
  std::error_code error;
  std::filesystem::create_directories(given, error);
  const std::filesystem::path folder = std::filesystem::canonical(given, error);
  constexpr std::size_t longest = 255;  // of the option black_box
  const bool is_long = folder.native().size() > longest;
  if (error || is_long || access(folder.c_str(), W_OK | X_OK) != 0) {
    throw cli_error(exit_code::usage,
                    fmt::format("the folder of --black-box cannot be used: {}: {}", given,
                                error     ? error.message()
                                : is_long ? "its name has more than 255 characters"
                                          : "no right to write"),
                    "Name a folder in memory, such as /dev/shm/box.");
  }
  struct statfs where {};
  if (statfs(folder.c_str(), &where) == 0 && where.f_type != TMPFS_MAGIC && where.f_type != RAMFS_MAGIC) {
    print_note(
        fmt::format("{} is not in memory: the system writes the black box to the disk now and then", given));
  }
  return folder;
}

box_watch::box_watch(std::string folder) : folder_(std::move(folder)), begun_(monotonic_seconds()) {}

bool box_watch::is_program(const readings& of) const {
  return main_ != 0 && static_cast<pid_t>(of.process) == main_;
}

// A box that is new, or of another image of its process.
void box_watch::meet(readings& of, const box_content& box) const {
  of = readings();
  of.start_ticks = box.start_ticks;
  of.start_ns = box.start_ns;
  of.kills = kills_;
  of.place = describe_place({});
  const std::string own = target_of("/proc/self/ns/pid");
  const bool is_near = box.pid_namespace == 0 || own == fmt::format("pid:[{}]", box.pid_namespace);
  of.process = is_near ? box.process : find_here(box.process, box.start_ticks);
  if (of.process == 0 || !is_alive(of.process, of.start_ticks)) return;
  of.handle = handle_of(of.process);
  of.place = describe_place({}, std::to_string(of.process));
  const std::string program = target_of(fmt::format("/proc/{}/exe", of.process));
  if (program == box.program) of.image = image_of(of.process);
}

void box_watch::read(readings& of, const box_content& box) {
  const auto status = profiler::read_process(of.process);
  if (!status || status->start_ticks != of.start_ticks || status->has_ended()) return;
  note_group(of);
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
      of.marks[1].live[one.figures.number] = static_cast<double>(one.figures.live_bytes);
  }
  auto split = split_of(of.process, row.time_ns);
  if (!split) return;
  split_anonymous(*split, box);
  of.memory.push_back(*split);
  if (of.memory.size() > most_splits) of.memory.erase(of.memory.begin(), of.memory.begin() + most_splits / 2);
}

void box_watch::look(pid_t program) {
  const double begin = monotonic_seconds();
  const double used_before = thread_seconds();
  const bool is_due = begin >= next_look_;
  main_ = program;
  for (const std::string& path : boxes_in(folder_)) {
    // A new one is met at once: how its process ends is known only from before.
    const auto at = known_.find(path);
    const std::uint64_t file = number_of(path);
    if (is_left(path)) continue;
    if (!is_due && at != known_.end() && at->second.file == file) continue;
    if (const auto failed = unread_.find(path); !is_due && failed != unread_.end() && failed->second == file)
      continue;
    std::string problem;
    const auto box = profiler::read_box(path, problem);
    if (!box) {
      unread_[path] = file;
      continue;
    }
    readings& of = known_[path];
    if (of.start_ns != box->start_ns) meet(of, *box);
    of.file = file;
    // The process has become another program, or another image of it, which has no box: the one before has ended well.
    const auto now = image_of(of.process);
    const bool is_other =
        of.image[1] != 0 && now[1] != 0 && (now != of.image || !has_mapped(of.process, file));
    if (is_other && is_alive(of.process, of.start_ticks)) {
      if (number_of(path) == file) unlink(path.c_str());  // not the one that the new image has just made
      known_.erase(path);
      continue;
    }
    read(of, *box);
  }
  take_ended(false);
  if (!is_due) return;
  const double end = monotonic_seconds();
  next_look_ = end + std::max((thread_seconds() - used_before) / look_part,
                              std::clamp((end - begun_) / 10, least_seconds_between_looks,
                                         most_seconds_between_looks));
}

void box_watch::note_group(readings& of) {
  const std::string before = of.kills.group();
  const bool is_shown = of.kills.look(of.process);
  if (of.kills.group() != before) of.rooms.clear();
  if (!is_shown) return;
  const os::memory_limits group = os::look_at_memory("", std::to_string(of.process).c_str()).group;
  of.limit = group.limit != os::unlimited ? static_cast<double>(group.limit) : 0;
  if (of.limit == 0) return;
  // The last look always, those before some seconds apart.
  std::deque<readings::room>& rooms = of.rooms;
  const std::size_t count = rooms.size();
  if (count >= 2 && rooms[count - 1].seconds - rooms[count - 2].seconds < seconds_between_rooms)
    rooms.pop_back();
  rooms.push_back({monotonic_seconds(), group});
  while (rooms.front().seconds < rooms.back().seconds - remembered_seconds) rooms.pop_front();
}

// One kill for memory is the end of one process.
profiler::shortage box_watch::shortage_of(const readings& of) const {
  const auto told = told_kills_.find(of.kills.group());
  return of.kills.since(told != told_kills_.end() ? told->second : 0);
}

nlohmann::json box_watch::last_minutes(const readings& of) {
  nlohmann::json rows = nlohmann::json::array();
  for (const readings::room& one : of.rooms)
    rows.push_back({of.rooms.back().seconds - one.seconds, one.group.used, one.group.limit});
  return rows;
}

std::optional<int> box_watch::end_of(const readings& of) const {
  if (is_program(of)) return main_status_;
  const auto end = end_by(of.handle);
  return end ? end : end_of_zombie(of.process, of.start_ticks);
}

bool box_watch::is_worth_telling(const readings& of, const box_content& box) const {
  if (const auto end = end_of(of))
    return WIFEXITED(*end) ? is_program(of) && WEXITSTATUS(*end) != 0
                           : !profiler::is_request_to_end(WTERMSIG(*end));
  // Many a helper ends by exit(1), and means nothing by it.
  return !box.status &&
         (box.live_bytes() >= noticeable_bytes || shortage_of(of) == profiler::shortage::group);
}

// What has become resident since the last look. What malloc has grown by, since what a program asks for, it writes: at most up to its
// peak, as a large table may not be written yet. One that was killed for memory was at its peak, and may have grown elsewhere, too;
// but the system may have taken some of its memory before it counted the peak.
double box_watch::grown_since(const readings& of, const memory_row& last, const box_content& box) const {
  constexpr double likely = 0.1;  // a larger difference is rather the peak of a child
  const double of_malloc =
      std::max(0.0, box.heap_in_use + box.heap_free - last.live - last.kept - last.mapped);
  const double up_to_peak = is_program(of) ? std::max(0.0, main_peak_ - last.resident_bytes) : of_malloc;
  if (shortage_of(of) != profiler::shortage::group) return std::min(of_malloc, up_to_peak);
  const double counted = last.sum() - last.files;
  const double room = of.limit > 0 ? std::max(0.0, of.limit - counted) : of_malloc;
  return std::min(room, up_to_peak < likely * main_peak_ ? std::max(of_malloc, up_to_peak) : of_malloc);
}

profile box_watch::profile_from(const readings& of, const box_content& box) const {
  profile p = profiler::profile_of(box);
  nlohmann::json meta = p.meta;
  meta.update(of.place);
  if (of.limit > 0) meta["memory_limit_bytes"] = of.limit;
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
    const double grown = grown_since(of, last, box);
    last.mapped += grown;
    last.resident_bytes += grown;
    const live_parts parts = split_anonymous(last, box);
    p.memory.rows.push_back(last);
    add_holders(p, last, parts, box);
  }
  const std::uint64_t end_ns = p.counters.empty() ? 0 : p.counters.back().time_ns;
  meta["duration_ns"] = end_ns;
  meta["peak_resident_bytes"] = of.peak_resident;
  if (!of.rooms.empty()) meta["last_minutes"] = last_minutes(of);
  // A mark lies between a quarter and three quarters of the time.
  const auto& mark = of.marks[4 * of.marks[1].time_ns <= 3 * end_ns ? 1 : 0];
  meta["growth_from_ns"] = mark.time_ns;
  for (std::size_t site = 0; site < p.sites.size(); ++site) {
    const auto found = mark.live.find(box.sites[site].figures.number);
    p.sites[site].figures.earlier_live_bytes = found != mark.live.end() ? found->second : 0;
  }
  if (const auto end = end_of(of)) {
    meta["exit"] = WIFEXITED(*end) ? nlohmann::json({{"status", WEXITSTATUS(*end)}})
                                   : nlohmann::json({{"signal", WTERMSIG(*end)}});
    if (WIFSIGNALED(*end) && WTERMSIG(*end) == SIGKILL) meta["out_of_memory"] = name_of(shortage_of(of));
  }
  profiler::set_meta(p, std::move(meta));
  return p;
}

// False: it could not be written, and a note says why.
bool box_watch::write(const profile& p, const std::string& name) const {
  const std::string beginning = folder_ + "/" + name;
  for (int number = 1;; ++number) {
    const std::string file = number == 1 ? beginning + ".prof" : fmt::format("{}-{}.prof", beginning, number);
    try {
      profiler::table_writer out(file, profiler::table_writer::start::fresh);
      profiler::store_profile(out, p);
      print_message("  next: tarn report {}\n", profiler::printable(file));
      return true;
    } catch (const profiler::file_exists&) {
    } catch (const profiler::profile_error& error) {
      print_note(fmt::format("no profile was written, and the box stays: {}", error.what()));
      std::error_code ignored;
      if (fs::is_empty(file, ignored)) unlink(file.c_str());
      return false;
    }
  }
}

bool box_watch::is_left(const std::string& path) const {
  const auto found = left_.find(path);
  return found != left_.end() && found->second == number_of(path);
}

void box_watch::take(const std::string& path, const readings& of) {
  if (is_left(path)) return;
  // The lock of one watch goes with it, so a box outlives a watch that is killed while it tells.
  const open_file file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.number() >= 0 && (flock(file.number(), LOCK_EX | LOCK_NB) != 0 || !is_file_of(file, path))) return;
  std::string problem;
  const auto box = profiler::read_box(path, problem);
  if (!box) {
    if (no_boxes_.insert(path).second) print_note(fmt::format("left as it is: {}", problem));
    return;
  }
  if (!is_worth_telling(of, *box) || tell(of, *box))
    unlink(path.c_str());
  else
    left_[path] = number_of(path);
}

// False: the box is to stay.
bool box_watch::tell(const readings& of, const box_content& box) {
  if (!is_program(of) && profiles_there() >= most_profiles) {
    if (dropped_++ == 0)
      print_note(fmt::format("{} has {} profiles: what else is killed is not told. Move some away", folder_,
                             most_profiles));
    return true;
  }
  profile p = profile_from(of, box);
  if (shortage_of(of) == profiler::shortage::group) {
    double& told = told_kills_[of.kills.group()];
    told = std::max(told, of.kills.before()) + 1;
  }
  profiler::add_symbols(p);
  profile shown = p;
  profiler::make_printable(shown);
  print_box_verdict(shown);
  return write(p, name_of(box));
}

std::size_t box_watch::profiles_there() const {
  std::error_code error;
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder_, error))
    count += entry.path().extension() == ".prof" ? 1 : 0;
  return count;
}

// Cheap while it runs, so that it can be asked often.
bool box_watch::has_ended(const readings& of) const {
  pollfd state{of.handle.number(), POLLIN, 0};
  if (of.handle.number() >= 0 && poll(&state, 1, 0) == 0) return false;
  return !is_alive(of.process, of.start_ticks);
}

void box_watch::take_ended(bool with_program) {
  for (auto at = known_.begin(); at != known_.end();) {
    const auto& [path, of] = *at;
    const bool is_taken = is_program(of) ? with_program : has_ended(of);
    if (!is_taken) {
      ++at;
      continue;
    }
    if (access(path.c_str(), F_OK) == 0) take(path, of);
    at = known_.erase(at);
  }
}

void box_watch::take_old() {
  for (const std::string& path : boxes_in(folder_)) {
    std::string problem;
    readings of;
    if (const auto box = profiler::read_box(path, problem)) meet(of, *box);
    if (of.process == 0 || !is_alive(of.process, of.start_ticks)) take(path, of);
  }
}

void box_watch::finish(double peak_resident) {
  main_peak_ = peak_resident;
  // Processes that the last look has not seen.
  for (const std::string& path : boxes_in(folder_)) {
    std::string problem;
    const auto box = profiler::read_box(path, problem);
    if (box && known_[path].start_ns != box->start_ns) meet(known_[path], *box);
  }
  take_ended(false);
  take_ended(true);
  if (dropped_ > 0) print_note(fmt::format("{} killed processes were not told of", dropped_));
}

}  // namespace tarn::cli
