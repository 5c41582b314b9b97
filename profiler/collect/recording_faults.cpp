// SPDX-License-Identifier: MIT
// recording_faults: handles the kernel's page faults and clock samples, and in mode faults its events of processes
// and mappings.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "profiler/analyze/opened_elf.hpp"
#include "profiler/collect/fault_watch.hpp"
#include "profiler/collect/recording.hpp"
#include "profiler/collect/recording_process.hpp"

namespace fs = std::filesystem;

namespace tarn::profiler {

namespace {

// Of each kind of event kept for images that are still starting; those of images without a recorder are among them.
constexpr std::size_t most_early = std::size_t{1} << 16;
constexpr std::size_t most_early_samples = std::size_t{1} << 12;

}  // namespace

void recording::take_faults() {
  new_faults_.clear();
  new_mappings_.clear();
  new_processes_.clear();
  new_clock_.clear();
  faults_.take(new_faults_, new_mappings_, new_processes_, new_clock_);
  if (settings_.mode == profile_mode::faults) {
    follow_processes();
    return place_faults();
  }
  note_execs();
  std::erase_if(early_clock_, [this](const clock_sample& sample) { return give(sample); });
  for (const clock_sample& sample : new_clock_) {
    if (!give(sample) && early_clock_.size() < most_early_samples) early_clock_.push_back(sample);
  }
  std::erase_if(early_faults_, [this](page_fault& fault) { return give(fault); });
  for (page_fault& fault : new_faults_) {
    if (give(fault)) continue;
    if (early_faults_.size() < most_early) {
      early_faults_.push_back(std::move(fault));
    } else {
      unplaced_faults_ += fault.weight;
    }
  }
}

void recording::note_execs() {
  for (const process_event& event : new_processes_) {
    if (event.kind != process_event::what::executed) continue;
    if (executed_ns_.size() >= most_early && !executed_ns_.contains(event.process)) continue;
    std::vector<std::uint64_t>& times = executed_ns_[event.process];
    times.insert(std::upper_bound(times.begin(), times.end(), event.time_ns), event.time_ns);
  }
}

// The last time until then at which the process called exec, which is forgotten; 0: not known.
std::uint64_t recording::take_exec(std::uint32_t process, std::uint64_t until_ns) {
  const auto found = executed_ns_.find(process);
  if (found == executed_ns_.end()) return 0;
  std::vector<std::uint64_t>& times = found->second;
  const auto later = std::upper_bound(times.begin(), times.end(), until_ns);
  const std::uint64_t last = later == times.begin() ? 0 : *(later - 1);
  times.erase(times.begin(), later);
  if (times.empty()) executed_ns_.erase(found);
  return last;
}

// Where the image's own figures begin: at its exec, or at the fork that made the process; at the attachment if there was one.
void recording::find_begin(process_entry& process, const process_entry* earlier) {
  const std::uint64_t executed = take_exec(process.pid, process.recorded_ns);
  process.before = process.at_start;
  process.start_ns = process.recorded_ns;
  const bool is_forked = process.parent_serial != 0;
  if (!is_forked && settings_.meta.contains("attached")) return;
  if (executed == 0 && earlier != nullptr) return;
  if (is_forked || executed == 0) process.before = {};
  if (is_forked) return;
  if (executed != 0) {
    process.start_ns = executed;
    leave_out_earlier(process, earlier);
  } else if (process.pid == main_process_) {
    process.start_ns = std::min(process.recorded_ns, main_started_ns_);
  }
}

// The kernel does not tell what a process had used when it called exec. Since then it has used at most the time that has
// passed, as one thread loads a program, and at most what its earlier images have not used.
void recording::leave_out_earlier(process_entry& process, const process_entry* earlier) const {
  const auto left = [](std::uint64_t all, double part) {
    return static_cast<std::uint64_t>(std::max(0.0, static_cast<double>(all) - part));
  };
  double faults = 0;
  for (const page_fault& fault : early_faults_) {
    const bool is_its = fault.process == process.pid && fault.time_ns >= process.start_ns;
    if (is_its && fault.time_ns < process.recorded_ns) faults += fault.weight;
  }
  usage_figures& before = process.before;
  const bool sees_all = earlier != nullptr || faults_.sees_kernel();
  before.minor_faults = sees_all ? left(before.minor_faults, faults) : 0;
  if (earlier == nullptr) before.major_faults = 0;
  const auto used = static_cast<double>(before.user_ns + before.system_ns);
  const double others = earlier != nullptr ? earlier->last.user_ns + earlier->last.system_ns : 0;
  const auto passed = static_cast<double>(process.recorded_ns - process.start_ns);
  const double part = used > 0 ? std::min(passed, std::max(0.0, used - others)) / used : 0;
  before.user_ns = left(before.user_ns, part * static_cast<double>(before.user_ns));
  before.system_ns = left(before.system_ns, part * static_cast<double>(before.system_ns));
}

bool recording::is_of_next_image(std::uint32_t process, std::uint64_t time_ns) const {
  const auto next = executed_ns_.find(process);
  return next != executed_ns_.end() && time_ns >= next->second.front();
}

// False: the fault's image has not arrived yet, and `fault` is unchanged. A program's first faults come before
// its recorder starts.
bool recording::give(page_fault& fault) {
  process_entry* owner = by_process(fault.process);
  if (owner == nullptr || is_of_next_image(fault.process, fault.time_ns)) return false;
  if (fault.time_ns >= owner->recorded_ns) {
    owner->faults.push_back(std::move(fault));
    return true;
  }
  const bool is_before = fault.time_ns < owner->start_ns && owner->parent_serial == 0;
  if (is_before || owner->is_loading_left_out()) return true;
  const bool is_recorders = owner->memory && fault.address >= owner->memory->page().own_start &&
                            fault.address < owner->memory->page().own_end;
  (is_recorders ? owner->early_own_faults : owner->early_faults) += fault.weight;
  return true;
}

// Samples of a process where malloc's code is not known are not counted: there the times of timed calls stand alone.
bool recording::give(const clock_sample& sample) {
  process_entry* owner = by_process(sample.process);
  if (owner == nullptr || is_of_next_image(sample.process, sample.time_ns)) return false;
  if (!owner->memory || sample.time_ns < owner->start_ns) return true;
  const process_page& page = owner->memory->page();
  if (!owner->malloc_at) {
    owner->malloc_at = malloc_codes_.read(owner->pid, {page.allocator_start, page.allocator_end});
  }
  if (owner->malloc_at->empty()) return true;
  process_model::code in = process_model::code::program;
  if (sample.instruction >= page.own_start && sample.instruction < page.own_end) {
    in = process_model::code::recorder;
  } else if (owner->malloc_at->holds(sample.instruction, sample.caller)) {
    in = process_model::code::malloc;
  }
  owner->model.clock_sample(static_cast<double>(sample.period_ns), in);
  return true;
}

process_entry& recording::add_seen_process(std::uint32_t pid, process_entry* parent, std::uint64_t time_ns) {
  auto added = std::make_unique<process_entry>(settings_of_models());
  process_entry& entry = *added;
  entry.serial = ++last_serial_;
  entry.pid = pid;
  entry.start_ns = time_ns;
  entry.start_seconds = seconds_since_1970(time_ns);
  if (parent != nullptr) {
    entry.parent_serial = parent->serial;
    entry.parent_pid = parent->pid;
    entry.program = parent->program;
    entry.command = parent->command;
    entry.arguments = parent->arguments;
    entry.result.modules = parent->result.modules;
    entry.regions = parent->regions;
  }
  if (const auto status = read_process(pid)) {
    entry.start_ticks = status->start_ticks;
    entry.last = *status;
  }
  entry.next_counters_ns = time_ns;
  entry.next_checkpoint_ns = time_ns + checkpoint_ns();
  processes_.push_back(std::move(added));
  return entry;
}

// Mode faults: follows processes and their mappings by the kernel's events.
void recording::follow_processes() {
  std::sort(
      new_processes_.begin(), new_processes_.end(),
      [](const process_event& left, const process_event& right) { return left.time_ns < right.time_ns; });
  for (const process_event& event : new_processes_) {
    process_entry* known = by_process(event.process);
    if (event.kind == process_event::what::forked && event.process != event.parent && known == nullptr) {
      add_seen_process(event.process, by_process(event.parent), event.time_ns);
    }
    if (event.kind == process_event::what::named && known != nullptr) {
      known->model.name_thread_by_id(event.thread, event.name);
    }
    if (event.kind != process_event::what::executed) continue;
    if (known != nullptr) {
      known->superseded = true;
      end_process(*known);
    }
    process_entry& entry = add_seen_process(event.process, nullptr, event.time_ns);
    std::error_code error;
    entry.program = fs::read_symlink(fmt::format("/proc/{}/exe", event.process), error).string();
    if (error) entry.program = event.name;
    entry.arguments = command_line_of(event.process);
    entry.command = process_name(entry.arguments, entry.program);
  }
  for (const mapping_event& mapping : new_mappings_) {
    process_entry* owner = by_process(mapping.process);
    if (owner == nullptr) continue;
    const std::uint64_t end = mapping.start + mapping.bytes;
    owner->regions.note(mapping.start, end, mapping.path);
    if (!mapping.executable || !mapping.path.starts_with('/')) continue;
    if (owner->result.modules.size() >= most_modules ||
        !owner->loaded_at.emplace(mapping.path, mapping.start).second)
      continue;
    owner->result.modules.push_back(
        {mapping.path, build_id_of(mapping.path), mapping.start, end, mapping.file_offset});
  }
}

// Mode faults: a fault's site is the call path that touched the memory, and the name of its mapping.
void recording::place_faults() {
  std::sort(new_faults_.begin(), new_faults_.end(),
            [](const page_fault& left, const page_fault& right) { return left.time_ns < right.time_ns; });
  for (const page_fault& fault : new_faults_) {
    process_entry* owner = by_process(fault.process);
    if (owner == nullptr) {
      unplaced_faults_ += fault.weight;
      continue;
    }
    add_touch(owner->model, owner->regions, fault, owner->start_ns);
  }
}

}  // namespace tarn::profiler
