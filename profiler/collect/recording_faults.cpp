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

// Faults kept for processes that are still starting; those of processes without a recorder are among them.
constexpr std::size_t most_early_faults = std::size_t{1} << 16;

}  // namespace

void recording::take_faults() {
  new_faults_.clear();
  new_mappings_.clear();
  new_processes_.clear();
  new_clock_.clear();
  faults_.take(new_faults_, new_mappings_, new_processes_, new_clock_);
  for (const clock_sample& sample : new_clock_) give(sample);
  if (settings_.mode == profile_mode::faults) {
    follow_processes();
    return place_faults();
  }
  std::erase_if(early_faults_, [this](page_fault& fault) { return give(fault); });
  for (page_fault& fault : new_faults_) {
    if (give(fault)) continue;
    if (early_faults_.size() < most_early_faults) {
      early_faults_.push_back(std::move(fault));
    } else {
      unplaced_faults_ += fault.weight;
    }
  }
}

// False: the fault's process has not arrived yet, and `fault` is unchanged. A program's first faults come before
// its recorder starts.
bool recording::give(page_fault& fault) {
  process_entry* owner = by_process(fault.process);
  if (owner == nullptr) return false;
  if (fault.time_ns >= owner->start_ns) {
    owner->faults.push_back(std::move(fault));
    return true;
  }
  const bool is_recorders = owner->memory && fault.address >= owner->memory->page().own_start &&
                            fault.address < owner->memory->page().own_end;
  if (!is_recorders) owner->early_faults += fault.weight;
  return true;
}

// Samples before the start of the process's recorder are not counted; nor are samples of a process where malloc's
// code is not known: there the times of timed calls stand alone.
void recording::give(const clock_sample& sample) {
  process_entry* owner = by_process(sample.process);
  if (owner == nullptr || !owner->memory || sample.time_ns < owner->start_ns) return;
  const process_page& page = owner->memory->page();
  if (!owner->malloc_at) {
    owner->malloc_at = malloc_codes_.read(owner->pid, {page.allocator_start, page.allocator_end});
  }
  if (owner->malloc_at->empty()) return;
  process_model::code in = process_model::code::program;
  if (sample.instruction >= page.own_start && sample.instruction < page.own_end) {
    in = process_model::code::recorder;
  } else if (owner->malloc_at->holds(sample.instruction, sample.caller)) {
    in = process_model::code::malloc;
  }
  owner->model.clock_sample(static_cast<double>(sample.period_ns), in);
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
