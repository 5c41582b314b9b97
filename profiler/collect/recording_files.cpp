// SPDX-License-Identifier: MIT
// recording_files: the file of each process: its name, its content, and what happens if it cannot be written.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "profiler/analyze/symbols.hpp"
#include "profiler/collect/recording.hpp"
#include "profiler/collect/recording_process.hpp"
#include "profiler/format/printable.hpp"

namespace fs = std::filesystem;

namespace tarn::profiler {

namespace {

constexpr int most_names = 1000;  // names tried for one file, as long as the one before exists

// What a program's name is in a file's name, which has room for 255 bytes and more than this part.
std::string part_of_file_name(const std::string& program) {
  constexpr std::size_t longest = 200;
  std::string part = printable(program);
  if (part.size() <= longest) return part;
  std::size_t end = longest;
  while ((static_cast<unsigned char>(part[end]) & 0xc0U) == 0x80U) --end;  // not within a character
  part.resize(end);
  return part;
}

}  // namespace

bool recording::is_taken(const std::string& path) const {
  return std::any_of(files_.begin(), files_.end(),
                     [&path](const finished_file& one) { return one.path == path; });
}

// `number` counts from 1; further numbers are for names that are taken, as by earlier images of the process. `end`: of
// the name of a file that is not the program's own.
std::string recording::file_name(const std::string& program, std::uint32_t process, const std::string& end,
                                 int number) const {
  const fs::path given = settings_.output;
  const std::string name =
      given.empty()
          ? (fs::path(settings_.directory) / fmt::format("tarn-{}-{}", part_of_file_name(program), process))
          : fs::path(given).replace_extension();
  return fmt::format("{}{}{}{}", name, end, number == 1 ? "" : fmt::format("-{}", number),
                     given.empty() ? ".prof" : given.extension().string());
}

std::string recording::file_name(const process_entry& process, int number) const {
  const bool is_main = process.pid == main_process_ && !process.superseded;
  const bool is_unclear = !settings_.output.empty() && !is_main;
  return file_name(process.command, process.pid, is_unclear ? fmt::format("-{}", process.pid) : "", number);
}

void recording::open_file(process_entry& process) {
  if (process.file || !process.problem.empty()) return;
  const bool is_named = !settings_.output.empty() && process.pid == main_process_ && !process.superseded;
  for (int number = 1; process.path.empty(); ++number) {
    const std::string path = file_name(process, number);
    if (is_taken(path)) continue;
    if (number > most_names) {
      process.path = path;
      process.problem = path + ": files of this name and of those before it exist already";
      break;
    }
    std::optional<table> command;
    if (settings_.command && process.pid == main_process_) command = command_table(*settings_.command);
    try {
      // A file of a name that the user did not choose is never overwritten.
      process.file = std::make_unique<profile_file>(
          path, is_named ? table_writer::start::replace : table_writer::start::fresh, std::move(command));
      process.path = path;
    } catch (const file_exists&) {
    } catch (const profile_error& error) {
      process.path = path;
      process.problem = error.what();
    }
  }
  files_.push_back({process.path, process.command, process.pid, ""});
}

void recording::fill(process_entry& process, bool last) {
  process.model.fill(process.result);
  fill_meta(process, last);
}

void recording::store(process_entry& process, bool last) {
  if (process.file) process.problem.clear();
  fill(process, last);
  try {
    if (process.file) process.file->checkpoint(process.result);
  } catch (const profile_error& error) {
    process.problem = error.what();  // the next checkpoint tries again
    if (process.file->has_events()) give_up_events(process, last);
  }
}

// If the disk is full, a profile can best do without single events.
void recording::give_up_events(process_entry& process, bool last) {
  process.model.drop_events();
  process.without_events = "single events are left out: " + std::exchange(process.problem, {});
  fill(process, last);
  try {
    process.file->drop_events(process.result);
  } catch (const profile_error& error) {
    process.problem = error.what();
  }
}

void recording::flush_events(process_entry& process) {
  if (process.model.waiting_events() == 0) return;
  if (!process.file) {
    open_file(process);
    if (process.file) store(process, false);  // what events refer to comes before them
  }
  const table rows = process.model.take_events();
  if (!process.file) return;
  try {
    process.file->append_events(rows);
  } catch (const profile_error& error) {
    process.problem = error.what();
    give_up_events(process, false);
  }
}

// Adds the figures that the recorder counted in the process.
void recording::add_recorder_figures(process_entry& process) {
  profile& result = process.result;
  double own = 0;
  if (process.memory) {
    const process_page& page = process.memory->page();
    // relaxed: independent counters
    const auto checked = static_cast<double>(page.unwind_checked.load(std::memory_order_relaxed));
    const auto wrong = static_cast<double>(page.unwind_wrong.load(std::memory_order_relaxed));
    own = static_cast<double>(page.own_faults.load(std::memory_order_relaxed));
    if (process.is_loading_left_out()) own -= std::min(own, static_cast<double>(page.own_faults_before));
    own += process.early_own_faults;
    result.other_faults += process.early_faults;
    // The recorder times only its slow paths, system calls included. Clock samples also cover the fast path of each
    // call, but nothing in the kernel. The larger figure is taken.
    const clock_counts& clock = process.model.clock();
    // relaxed: an independent sum
    result.recorder_ns = std::max(clock_.duration_ns(page.own_ticks.load(std::memory_order_relaxed)),
                                  clock.in_recorder * clock.ns_each);
    result.lost_events = process.memory->lost_events();
    result.unwind_checked = checked;
    result.unwind_error_rate = checked > 0 ? wrong / checked : 0;
  }
  own += process.children.own_faults;
  const double all = process.last.minor_faults - static_cast<double>(process.before.minor_faults) +
                     process.children.used.minor_faults;
  const double unseen = all - own - process.model.seen_faults() - process.early_faults;
  result.unseen_faults = std::max(0.0, unseen);
  // The recorder's own faults were observed as well, on none of the program's blocks.
  result.other_faults = std::max(0.0, result.other_faults - std::min(own, std::max(0.0, -unseen)));
}

// Null: it told everything.
const char* why_silent(const process_entry& process) {
  if (process.memory == nullptr) return nullptr;
  // relaxed: nothing else depends on it
  switch (process.memory->page().silent_because.load(std::memory_order_relaxed)) {
    case silence::strict_mode:
      return "what came after the program had entered seccomp's strict mode, which allows the recorder nothing: the "
             "recording ends there";
    case silence::no_counter:
      return "what came after the program had turned off the processor's counter, by which events are timed "
             "(PR_SET_TSC): the recording ends there";
    case silence::none:
      break;
  }
  return nullptr;
}

void add_unread_scripts(const process_entry& process, nlohmann::json& refused) {
  if (process.memory == nullptr) return;
  // relaxed: nothing else depends on it
  const std::uint32_t unread = process.memory->page().unread_scripts.load(std::memory_order_relaxed);
  constexpr const char* build = ", or is built with other structures: call paths have its native code only";
  if ((unread & unread_python) != 0)
    refused.push_back(
        fmt::format("Python's functions: the interpreter is not of version 3.11 to 3.13{}", build));
  if ((unread & unread_lua) != 0)
    refused.push_back(
        fmt::format("Lua's functions: the interpreter is not of version 5.4.3 to 5.4.8{}", build));
}

// Why the time in malloc comes from timed calls alone; empty: it does not, or nothing is timed.
std::string recording::why_without_clock(const process_entry& process) const {
  if (settings_.mode != profile_mode::sample) return {};
  constexpr const char* instead =
      "time in malloc is that of timed calls alone, which can be wrong by a third";
  if (faults_.clock_ns() == 0)
    return fmt::format("samples of the clock (the kernel refuses them): {}", instead);
  if (process.malloc_at && process.malloc_at->is_inseparable()) {
    return fmt::format("samples of the clock in malloc ({} has other code besides): {}", process.allocator,
                       instead);
  }
  if (process.malloc_at && process.malloc_at->empty()) {
    return fmt::format("samples of the clock in malloc (the code of {} cannot be read): {}",
                       process.allocator, instead);
  }
  return {};
}

void recording::fill_meta(process_entry& process, bool last) {
  profile& result = process.result;
  nlohmann::json meta = settings_.meta;
  meta["program"] = process.program;
  meta["arguments"] = process.arguments;
  meta["pid"] = process.pid;
  meta["parent"] = process.parent_pid;
  meta["command"] = process.command;
  meta["start"] = process.start_seconds;
  meta["duration_ns"] = raw_clock_ns() - process.start_ns;
  if (!last) meta["unfinished"] = true;
  const std::uint64_t untouched_ns = process.looks.untouched_ns();
  if (untouched_ns > 0 || process.model.joined_threads() > 0) {
    const std::uint64_t lasted_ns = meta["duration_ns"];
    meta["thinned"] = {
        {"readings_before_ns", untouched_ns > 0 ? lasted_ns - std::min(lasted_ns, untouched_ns) : 0},
        {"threads", process.model.joined_threads()}};
  }
  meta["sample_bytes"] = settings_.mode == profile_mode::sample ? settings_.sample_bytes : 0;
  meta["fault_period"] = faults_.is_open() ? std::round(faults_.period()) : 0;
  meta["page_bytes"] = sysconf(_SC_PAGESIZE);
  meta["allocator"] = process.allocator;
  nlohmann::json refused = meta.contains("refused") ? meta["refused"] : nlohmann::json::array();
  if (!faults_.is_open()) refused.push_back(faults_.refusal());
  if (faults_.is_open() && !faults_.sees_kernel()) {
    refused.push_back(
        "page faults that the kernel takes itself, as in read() into fresh memory, are counted, not seen (as root, or at "
        "kernel.perf_event_paranoid 1 they are)");
  }
  if (std::string why = why_without_clock(process); !why.empty()) refused.push_back(std::move(why));
  if (faults_.lost() > 0)
    refused.push_back(fmt::format("{:.0f} page faults were lost: they came too fast", faults_.lost()));
  if (process.model.events_cut()) {
    refused.push_back(fmt::format("the events table ends after {} events", most_events));
  }
  if (process.overwritten) {
    refused.push_back(
        "the program has overwritten some of what its recorder told: events are missing, or wrong");
  }
  add_unread_scripts(process, refused);
  if (const char* const why = why_silent(process); why != nullptr) refused.push_back(why);
  if (!process.without_events.empty()) refused.push_back(process.without_events);
  if (!process.problem.empty()) refused.push_back(process.problem);
  meta["refused"] = refused;
  meta["small_children"] = {{"processes", process.children.processes},
                            {"allocations", process.children.allocations}};
  meta["peak_resident_bytes"] = process.peak_resident;
  meta["peak_resident_exact"] = process.is_peak_exact;
  if (process.peak_address_space > 0) meta["peak_address_bytes"] = process.peak_address_space;
  meta["growth_from_ns"] = process.model.mark_ns();
  fill_leaks(process, meta);
  meta["odd_events"] = process.model.odd_events();
  if (process.pid == main_process_ && !process.superseded && main_status_ >= 0) {
    meta["exit"] = WIFEXITED(main_status_) ? nlohmann::json({{"status", WEXITSTATUS(main_status_)}})
                                           : nlohmann::json({{"signal", WTERMSIG(main_status_)}});
  }
  result.meta = std::move(meta);
  result.memory = process.memory_parts.history();
  result.mode = settings_.mode;
  result.prices = settings_.prices;
  add_recorder_figures(process);
  fit_costs(result);
}

void recording::write(process_entry& process, bool last) {
  flush_events(process);
  open_file(process);
  store(process, last);
  for (finished_file& one : files_) {
    if (one.path == process.path) one.problem = process.problem;
  }
  if (last) lost_ += process.result.lost_events;
}

// Adds symbols and types, after the processes have ended and nothing waits for the collector.
void recording::finish_file(process_entry& process) {
  process.jit.name_in(process.result);
  add_symbols(process.result, settings_.symbols);
  jit_code::note_missing(process.result);
  try {
    if (process.file) {
      process.problem.clear();
      process.file->finish(process.result);
    }
  } catch (const profile_error& error) {
    process.problem = error.what();
  }
  for (finished_file& one : files_) {
    if (one.path == process.path) one.problem = process.problem;
  }
  process.file.reset();
  const auto keep = [&process](std::unique_ptr<profile>& place) {
    place = std::make_unique<profile>(std::move(process.result));
    make_printable(*place);
  };
  const auto costliest = std::find_if(summaries_.begin(), summaries_.end(),
                                      [](const process_summary& one) { return one.has_own_file; });
  if (process.pid == main_process_ && !process.superseded) {
    keep(main_profile_);
  } else if (costliest != summaries_.end() && costliest->path == process.path) {
    keep(costliest_profile_);
  }
}

void recording::finish_files() {
  write_small_processes();
  std::stable_sort(summaries_.begin(), summaries_.end(),
                   [](const process_summary& left, const process_summary& right) {
                     return left.charged.total() > right.charged.total();
                   });
  for (auto& process : ended_) {
    finish_file(*process);
    process.reset();
  }
  ended_.clear();
}

std::string recording::small_file_name(int number) const {
  const auto root = std::find_if(summaries_.begin(), summaries_.end(), [this](const process_summary& one) {
    return one.process == main_process_ && one.has_own_file;
  });
  return file_name(root == summaries_.end() ? "program" : root->command, main_process_, "-small", number);
}

// False: a file of that name exists already.
bool recording::write_small_file(const profile& parts, const std::string& path) {
  std::string problem;
  try {
    table_writer file(path, table_writer::start::fresh);
    store_profile(file, parts);
    for (process_summary& each : small_.groups()) each.path = path;
  } catch (const file_exists&) {
    return false;
  } catch (const profile_error& error) {
    problem = error.what();
  }
  files_.push_back({path, "small processes", 0, problem});
  return true;
}

// Writes one file for all processes without a file of their own, if together they are worth one.
void recording::write_small_processes() {
  if (small_.empty()) return;
  process_summary all;
  for (const process_summary& each : small_.groups()) all.add(each);
  profile parts = small_.take();
  // A group's cost as its part of the merged file has it: the limit of a cost to a process's time is applied to the
  // whole group there.
  const std::vector<profile> figures = figures_by_process(parts);
  for (std::size_t group = 0; group < figures.size(); ++group)
    small_.groups()[group].charged = cost_of_all(figures[group]);
  if (is_worth_a_file(all.allocations, all.bytes, all.faults)) {
    add_symbols(parts, settings_.symbols);
    for (int number = 1; number <= most_names && !write_small_file(parts, small_file_name(number));
         ++number) {
    }
  }
  summaries_.insert(summaries_.end(), small_.groups().begin(), small_.groups().end());
}

}  // namespace tarn::profiler
