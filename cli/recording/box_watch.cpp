// SPDX-License-Identifier: MIT
#include "cli/recording/box_watch.hpp"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "cli/launch/child_process.hpp"
#include "cli/launch/foreground.hpp"
#include "cli/recording/box_files.hpp"
#include "cli/recording/ended_profile.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/profile_verdict.hpp"
#include "profiler/analyze/symbols.hpp"
#include "profiler/collect/process_summary.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/model/recorded_command.hpp"
#include "profiler/model/store_profile.hpp"
#include "profiler/proc/proc_status.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

using profiler::box_content;
using profiler::profile;

// What a process must hold to be told of if nobody knows how it ended.
constexpr double noticeable_bytes = 1 << 20;
constexpr std::size_t longest_name = 100;
// So many processes without a box are followed: each has a handle.
constexpr std::size_t most_bare = 256;

// For a file's name.
std::string name_of(const box_content& box) {
  std::string name = profiler::cut_at_character(
      profiler::printable(profiler::process_name(box.arguments, box.program)), longest_name);
  if (name.starts_with('.')) name.front() = '_';
  return fmt::format("{}-{}", name, box.process);
}

bool is_of_another_user(const std::string& path) {
  return access(path.c_str(), R_OK) != 0 && errno == EACCES;
}

}  // namespace

box_watch::box_watch(std::string folder) : folder_(std::move(folder)), looks_(monotonic_seconds()) {}

bool box_watch::is_program(const process_end& of) const {
  return main_ != 0 && static_cast<pid_t>(of.process()) == main_;
}

void box_watch::look(pid_t program) {
  const double used_before = thread_seconds();
  const bool is_due = looks_.is_due(monotonic_seconds());
  main_ = program;
  for (const std::string& path : boxes_in(folder_)) {
    // A new one is met at once: how its process ends is known only from before.
    const auto at = known_.find(path);
    const std::uint64_t file = file_number(path);
    if (is_left(path)) continue;
    if (!is_due && at != known_.end() && at->second.file == file) continue;
    if (const auto failed = unread_.find(path); !is_due && failed != unread_.end() && failed->second == file)
      continue;
    std::string problem;
    const auto box = profiler::read_box(path, problem);
    if (!box) {
      unread_[path] = file;
      if (is_of_another_user(path)) tell_unread(path, problem);  // another may be only half made
      continue;
    }
    box_readings& of = known_[path];
    if (of.start_ns != box->start_ns) of = box_readings(path, *box, kills_);
    of.file = file;
    if (of.is_of_earlier_image(path)) {
      leave_image(path);
      continue;
    }
    bare_.erase(of.end.process());
    of.read(*box);
  }
  if (is_due) note_children();
  note_gone();
  if (is_due) looks_.note_look(monotonic_seconds(), thread_seconds() - used_before);
  take_ended(false);
}

// No report will come of such a file.
void box_watch::tell_unread(const std::string& path, const std::string& problem) {
  if (!no_boxes_.insert(path).second) return;
  print_note(
      is_of_another_user(path)
          ? fmt::format(
                "{} belongs to another user: its process is not watched. Run tarn as that user, or as root",
                path)
          : fmt::format("left as it is: {}. Without this file, the line goes, too: move it, or remove it",
                        problem));
}

// An image that has become another one has ended well.
void box_watch::leave_image(const std::string& path) {
  const auto at = known_.find(path);
  const std::uint64_t file = at->second.file;
  if (file_number(path) == file) unlink(path.c_str());  // not the one that the new image has just made
  if (file_number(path) == file) left_[path] = file;
  bool has_another = false;
  for (const auto& [other, of] : known_)
    has_another |= other != path && of.end.process() == at->second.end.process() &&
                   of.end.start_ticks() == at->second.end.start_ticks() && !of.is_of_earlier_image(other);
  if (!has_another) bare_[at->second.end.process()] = {std::move(at->second.end), at->second.name};
  known_.erase(at);
}

// Its box may have come, and its end with it, since the last look.
bool box_watch::has_box(const process_end& of) const {
  const std::vector<std::string> boxes = boxes_in(folder_);
  return std::any_of(boxes.begin(), boxes.end(), [&of](const std::string& path) {
    return is_name_of(path, of.process(), of.start_ticks());
  });
}

// Processes that have no box yet: a child that was forked has none until its first sample.
void box_watch::note_children() {
  std::set<std::uint32_t> of_boxes{static_cast<std::uint32_t>(main_)};
  for (const auto& [path, of] : known_) of_boxes.insert(of.end.process());
  std::set<std::uint32_t> parents = of_boxes;
  for (const auto& [process, one] : bare_) parents.insert(process);
  parents.erase(0);
  for (const std::uint32_t parent : parents) {
    for (const std::uint32_t child : profiler::children_of(parent)) {
      if (bare_.size() >= most_bare || of_boxes.count(child) != 0 || bare_.count(child) != 0) continue;
      const auto now = profiler::read_process(child);
      if (now && !now->has_ended()) bare_[child] = {process_end(child, now->start_ticks), now->name};
    }
  }
}

void box_watch::note_gone() {
  for (auto& [path, of] : known_)
    of.is_gone = access(path.c_str(), F_OK) != 0 && (of.is_gone || of.end.is_alive());
  for (auto& [process, one] : bare_) {
    const std::vector<std::string> words = profiler::command_line_of(process);
    if (!words.empty() && one.end.is_alive()) one.name = profiler::process_name(words, "");
  }
}

// What remains of a process's earlier images, where no look came between.
void box_watch::drop_outdated() {
  std::map<std::string, std::uint64_t> starts;
  for (const auto& [path, of] : known_) starts[path] = of.start_ns;
  for (const std::string& path : outdated(starts)) {
    unlink(path.c_str());
    known_.erase(path);
  }
}

std::optional<int> box_watch::end_of(const process_end& of) const {
  return is_program(of) ? main_status_ : of.status();
}

bool box_watch::is_bad(const process_end& of, int status) const {
  return WIFEXITED(status) ? is_program(of) && WEXITSTATUS(status) != 0
                           : !profiler::is_request_to_end(WTERMSIG(status));
}

void box_watch::tell_bare(const process_end& of, const std::string& name, const std::string& why) const {
  const auto end = end_of(of);
  if (!end || !is_bad(of, *end)) return;
  const std::string how =
      WIFEXITED(*end) ? fmt::format("it ended with status {}", WEXITSTATUS(*end))
                      : fmt::format("killed by signal {} ({})", WTERMSIG(*end), strsignal(WTERMSIG(*end)));
  print_note(fmt::format("{}, process {}: {}; {}", profiler::printable(name), of.process(), how, why));
}

// One kill for memory is the end of one process.
profiler::shortage box_watch::shortage_of(const box_readings& of) const {
  const auto told = told_kills_.find(of.kills.group());
  return of.kills.since(told != told_kills_.end() ? told->second : 0);
}

bool box_watch::is_worth_telling(const box_readings& of, const box_content& box) const {
  if (const auto end = end_of(of.end)) return is_bad(of.end, *end);
  // Many a helper ends by exit(1), and means nothing by it.
  return !box.status &&
         (box.live_bytes() >= noticeable_bytes || shortage_of(of) == profiler::shortage::group);
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
  return found != left_.end() && found->second == file_number(path);
}

void box_watch::take(const std::string& path, const box_readings& of) {
  if (is_left(path)) return;
  const box_lock lock(path);
  if (!lock.is_held()) return;
  std::string problem;
  const auto box = profiler::read_box(path, problem);
  if (!box) {
    tell_unread(path, problem);
    return;
  }
  if (!is_worth_telling(of, *box) || tell(of, *box))
    unlink(path.c_str());
  else
    left_[path] = file_number(path);
}

// False: the box is to stay.
bool box_watch::tell(const box_readings& of, const box_content& box) {
  if (!is_program(of.end) && count_profiles_in(folder_) >= most_profiles) {
    if (dropped_++ == 0)
      print_note(fmt::format("{} has {} profiles: what else is killed is not told. Move some away", folder_,
                             most_profiles));
    return true;
  }
  const box_end end{end_of(of.end), shortage_of(of),
                    is_program(of.end) ? std::optional(main_peak_) : std::nullopt, seen_end_ns_};
  profile p = ended_profile(of, box, end);
  if (end.shortage == profiler::shortage::group) {
    double& told = told_kills_[of.kills.group()];
    told = std::max(told, of.kills.before()) + 1;
  }
  profiler::add_symbols(p);
  profile shown = p;
  profiler::make_printable(shown);
  print_box_verdict(shown);
  return write(p, name_of(box));
}

void box_watch::take_ended(bool with_program) {
  bool waits = !with_program;  // the program's end has been waited for so
  seen_end_ns_ = now_since_1970();
  drop_outdated();
  for (auto at = known_.begin(); at != known_.end();) {
    const auto& [path, of] = *at;
    const bool is_taken = is_program(of.end) ? with_program : of.end.has_ended();
    if (!is_taken) {
      ++at;
      continue;
    }
    if (access(path.c_str(), F_OK) == 0) {
      if (std::exchange(waits, false)) await_room();
      take(path, of);
    } else if (of.is_gone) {
      tell_bare(of.end, of.name, fmt::format("its box is gone: {} was removed while it ran", path));
    }
    at = known_.erase(at);
  }
  for (auto at = bare_.begin(); at != bare_.end();) {
    const without_box& one = at->second;
    if (is_program(one.end) ? !with_program : !one.end.has_ended()) {
      ++at;
      continue;
    }
    if (!has_box(one.end)) {
      tell_bare(one.end, one.name,
                fmt::format("no box: it ran without tarn's malloc, had no right to write to {}, or was "
                            "forked and took no sample since",
                            folder_));
    }
    at = bare_.erase(at);
  }
}

void box_watch::take_old() {
  std::map<std::string, box_readings> ended;
  std::map<std::string, std::uint64_t> starts;
  for (const std::string& path : boxes_in(folder_)) {
    std::string problem;
    box_readings of;
    if (const auto box = profiler::read_box(path, problem)) of = box_readings(path, *box, kills_);
    if (of.end.is_alive()) continue;
    if (of.start_ns != 0) starts[path] = of.start_ns;
    ended[path] = std::move(of);
  }
  for (const std::string& path : outdated(starts)) {
    unlink(path.c_str());
    ended.erase(path);
  }
  for (const auto& [path, of] : ended) take(path, of);
}

void box_watch::finish(double peak_resident) {
  main_peak_ = peak_resident;
  // Processes that the last look has not seen.
  for (const std::string& path : boxes_in(folder_)) {
    std::string problem;
    const auto box = profiler::read_box(path, problem);
    if (box && !is_left(path) && known_[path].start_ns != box->start_ns)
      known_[path] = box_readings(path, *box, kills_);
  }
  take_ended(false);
  take_ended(true);
  tell_dropped();
}

void box_watch::tell_dropped() const {
  if (dropped_ > 0) print_note(fmt::format("{} killed processes were not told of", dropped_));
}

}  // namespace tarn::cli
