// SPDX-License-Identifier: MIT
// recording_processes: recorded processes from the arrival of their memory to their end.
//
// A process's id and user come from the kernel. Everything else comes from the process's own page, and can falsify its
// own figures only. The one exception is its parent, whose profile takes in what small children did: it is accepted if
// the process knows the parent's serial, which only its descendants do, and has the same user.
#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "profiler/collect/recording.hpp"
#include "profiler/collect/recording_process.hpp"
#include "profiler/proc/process_maps.hpp"

namespace tarn::profiler {

namespace {

constexpr std::uint64_t look_every_ns = second_ns / 20;
constexpr std::uint64_t names_every_ns = second_ns;
// Least time per process between two readings of its counters, so that reading all of them takes a few per cent of
// a processor.
constexpr std::uint64_t least_ns_between_counters = 500'000;
// Checkpoints may take 1 / checkpoint_share of the time.
constexpr std::uint64_t checkpoint_share = 50;
constexpr std::size_t most_looks = 32;  // processes looked at in one round
constexpr int most_arrivals = 1024;     // per drain; more than a socket's queue holds

// A child that did less than this leaves no file of its own.
constexpr double file_allocations = 10000;
constexpr double file_bytes = 16 << 20;
constexpr double file_faults = 4096;
constexpr std::size_t most_files = 200;
constexpr std::ptrdiff_t most_images = 16;  // images of one process that get a file of their own

bool exists(std::int32_t process) { return kill(process, 0) == 0 || errno == EPERM; }

// False: the process has called exec since, so its command line is that of the next program.
bool runs_file_named(std::uint32_t process, const std::string& program) {
  std::error_code error;
  const auto now = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", process), error);
  return error || now.filename() == std::filesystem::path(program).filename();
}

// Empty: none, or the process has ended.
std::string mapped_file_at(std::uint32_t process, std::uint64_t address) {
  for (const mapping& each : parse_mappings(proc_text(process, "maps"))) {
    if (address >= each.start && address < each.end) return each.name;
  }
  return "";
}

// Whether the earlier process has ended, and its id was given to another one; otherwise it has called exec. What knows its parent
// has come from fork: no memory outlasts exec.
bool is_another_process(const process_entry& earlier, const process_page& page,
                        const std::optional<process_figures>& status) {
  return page.parent_serial != 0 ||
         (status && earlier.start_ticks != 0 && status->start_ticks != earlier.start_ticks);
}

std::string text_of(const char* room) { return {room, strnlen(room, path_room)}; }

}  // namespace

std::uint64_t recording::checkpoint_ns() const {
  return static_cast<std::uint64_t>(settings_.checkpoint_seconds * 1e9);
}

process_entry* recording::by_process(std::uint32_t process) {
  // The newest image is the current one.
  for (auto at = processes_.rbegin(); at != processes_.rend(); ++at) {
    if ((*at)->pid == process) return at->get();
  }
  return nullptr;
}

process_entry* recording::by_serial(std::uint64_t serial) {
  for (const auto& process : processes_) {
    if (serial != 0 && process->serial == serial) return process.get();
  }
  return nullptr;
}

// Only a parent of the same user: what a process of other rights has told must not get into its profile.
process_entry* recording::parent_of(const process_entry& process) {
  process_entry* parent = by_serial(process.parent_serial);
  return parent != nullptr && parent->user == process.user ? parent : nullptr;
}

void recording::take_arrivals() {
  for (int count = 0; count < most_arrivals; ++count) {
    std::optional<arrival> next = session_->receive();
    if (!next) return;
    add_process(std::move(*next));
  }
}

// The process has called exec: ends the earlier image. `usage` is the process's usage at that time.
void recording::end_earlier_image(process_entry& earlier, const usage_figures& usage) {
  earlier.superseded = true;
  earlier.last.minor_faults = static_cast<double>(usage.minor_faults);
  earlier.last.major_faults = static_cast<double>(usage.major_faults);
  earlier.last.user_ns = static_cast<double>(usage.user_ns);
  earlier.last.system_ns = static_cast<double>(usage.system_ns);
  end_process(earlier);
}

void recording::add_process(arrival&& from) {
  take_faults();  // the kernel has told of the image's exec
  const process_page& page = from.memory->page();
  const auto status = read_process(from.process);
  process_entry* earlier = by_process(from.process);
  const bool is_first_image = earlier == nullptr || is_another_process(*earlier, page, status);
  if (earlier != nullptr && is_first_image) end_process(*earlier);
  model_settings models = settings_of_models();
  models.allocator_start = page.allocator_start;
  models.allocator_end = page.allocator_end;
  auto added = std::make_unique<process_entry>(models);
  process_entry& entry = *added;
  entry.pid = from.process;
  // Only the first image was made by fork; after exec there is no parent to add to.
  entry.parent_serial = is_first_image ? page.parent_serial : 0;
  entry.at_start = page.at_start;
  entry.recorded_ns = std::min(clock_.to_ns(page.start_ticks), raw_clock_ns());
  find_begin(entry, is_first_image ? nullptr : earlier);
  entry.start_seconds = seconds_since_1970(entry.start_ns);
  if (!is_first_image) end_earlier_image(*earlier, entry.before);
  entry.serial = page.serial;
  // A serial that another process has already is forged: it would divert the figures of that process's children.
  if (by_serial(entry.serial) != nullptr) entry.serial = 0;
  entry.user = from.user;
  entry.parent_pid = static_cast<std::uint32_t>(page.parent_pid);
  entry.program = text_of(page.program);
  entry.allocator = text_of(page.allocator);
  if (runs_file_named(entry.pid, entry.program)) entry.arguments = command_line_of(entry.pid);
  // If the main program has ended already or has called exec, its arguments are those that the caller started it
  // with.
  if (entry.arguments.empty() && entry.pid == main_process_ && is_first_image) {
    entry.arguments = settings_.meta.value("arguments", std::vector<std::string>());
  }
  // Another process, or /proc cannot be read: use what its recorder has written.
  if (entry.arguments.empty() && page.command[0] != 0) entry.arguments = {text_of(page.command)};
  entry.command = process_name(entry.arguments, entry.program);
  entry.memory = std::move(from.memory);
  if (status) {
    entry.start_ticks = status->start_ticks;
    entry.last = *status;
  }
  if (const process_entry* parent = by_serial(entry.parent_serial)) {
    entry.result.modules = parent->result.modules;
    entry.loaded_at = parent->loaded_at;
    if (entry.program.empty()) entry.program = parent->program;  // the process sees no /proc
    entry.command = parent->command;  // the process's own name may have been changed to a title
  }
  const std::uint64_t now = raw_clock_ns();
  entry.next_counters_ns = now;
  entry.next_checkpoint_ns = now + checkpoint_ns();
  processes_.push_back(std::move(added));
}

std::string path_outside(std::uint32_t process, const loaded_elf& library) {
  const auto is_it = [&library](const std::string& path) {
    return library.build_id.empty() ? path.starts_with('/') : build_id_of(path) == library.build_id;
  };
  if (library.path.starts_with('/') && is_it(library.path)) return library.path;
  std::error_code error;
  const std::string root =
      std::filesystem::read_symlink(fmt::format("/proc/{}/root", process), error).string();
  const std::string mapped = mapped_file_at(process, library.start);
  for (const std::string& path : {mapped, root + mapped, root + library.path}) {
    if (!error && is_it(path)) return path;
  }
  return library.path;
}

void recording::look_for_rings(process_entry& process) {
  if (!process.memory) return;
  for (std::size_t index = process.rings.size(); index < process.memory->rings(); ++index) {
    process.rings.emplace_back().stream.reset(process.memory->words(index), process.memory->ring_words(),
                                              &process.model, &clock_, &process, process.start_ns);
  }
  if (os::is_check_due(process.rings.size())) process.validate();
}

void recording::take_exit_figures(process_entry& process) {
  const process_page& page = process.memory->page();
  // acquire, pairs with the process's release in process_ends: at_exit is filled
  if (process.superseded || page.ended.load(std::memory_order_acquire) == 0) return;
  const usage_figures at_exit = page.at_exit;
  const auto raise = [](double& figure, std::uint64_t to) {
    figure = std::max(figure, static_cast<double>(to));
  };
  raise(process.last.minor_faults, at_exit.minor_faults);
  raise(process.last.major_faults, at_exit.major_faults);
  raise(process.last.user_ns, at_exit.user_ns);
  raise(process.last.system_ns, at_exit.system_ns);
  // The kernel's peak covers earlier images too; it is this image's if it has grown since the recording began.
  if (at_exit.peak_bytes <= process.at_start.peak_bytes) return;
  raise(process.peak_resident, at_exit.peak_bytes);
  process.is_peak_exact = true;
}

void recording::add_counters(process_entry& process, bool at_end) {
  if (const auto status = read_process(process.pid); status && !process.superseded) {
    if (process.start_ticks == 0) process.start_ticks = status->start_ticks;
    if (status->start_ticks == process.start_ticks) {
      const double resident = process.last.resident_bytes;
      process.last = *status;
      if (status->has_ended()) process.last.resident_bytes = resident;
    }
  }
  if (at_end && process.memory) take_exit_figures(process);
  counter_row row;
  row.time_ns = raw_clock_ns() - process.start_ns;
  row.resident_bytes = process.last.resident_bytes;
  row.live_bytes = process.model.live_bytes();
  row.live = process.model.live_blocks();
  row.allocations = process.model.allocations();
  row.frees = process.model.frees();
  const auto since = [](double now, std::uint64_t start) {
    return std::max(0.0, now - static_cast<double>(start));
  };
  const process_counters& children = process.children.used;
  row.faults = since(process.last.minor_faults, process.before.minor_faults) + children.minor_faults;
  row.major_faults = since(process.last.major_faults, process.before.major_faults) + children.major_faults;
  row.user_ns = since(process.last.user_ns, process.before.user_ns) + children.user_ns;
  row.system_ns = since(process.last.system_ns, process.before.system_ns) + children.system_ns;
  row.seen_faults = process.model.seen_faults();
  process.model.pass_time(row.time_ns);
  process.looks.add(process.result.counters, row);
  raise_peak(process, row.resident_bytes);
}

// Returns the kernel's peak of resident memory. It covers the process's whole life: after tarn attach, 0 is returned if it
// has not grown since.
double recording::read_kernel_peaks(process_entry& process) const {
  const double peak = peak_resident_of(process.pid);
  if (settings_.meta.contains("address_limit_bytes"))
    process.peak_address_space = std::max(process.peak_address_space, peak_address_space_of(process.pid));
  const bool is_of_before =
      settings_.meta.contains("attached") && peak <= static_cast<double>(process.at_start.peak_bytes);
  return is_of_before ? 0 : peak;
}

void recording::raise_peak(process_entry& process, double resident_bytes) {
  process.peak_resident = std::max(process.peak_resident, resident_bytes);
  const std::vector<counter_row>& rows = process.result.counters;
  // A row that is in the file stays as it is: the next one is raised.
  if (process.file && !rows.empty() && process.file->has_counters_of(rows.back().time_ns)) return;
  process.looks.raise(process.result.counters, process.peak_resident);
}

// Reads what changes seldom or is expensive to read. True: the process has ended.
bool recording::look_closely(process_entry& process, std::uint64_t now) {
  process.next_look_ns = now + look_every_ns;
  if (!exists(static_cast<std::int32_t>(process.pid))) return true;
  const auto status = read_process(process.pid);
  if (!status) return false;
  const bool other = process.start_ticks != 0 && status->start_ticks != process.start_ticks;
  if (other || status->has_ended()) return true;
  raise_peak(process, read_kernel_peaks(process));
  if (now < process.next_names_ns) return false;
  process.next_names_ns = now + std::clamp(now - process.start_ns, look_every_ns, names_every_ns);
  process.jit.look_at(process.pid, process.start_ticks);
  for (const auto& [id, name] : thread_names(process.pid)) process.model.name_thread_by_id(id, name);
  return false;
}

void recording::look_after_processes(bool all) {
  const std::uint64_t now = raw_clock_ns();
  std::vector<process_entry*> ended;
  const std::size_t looks = std::min(processes_.size(), all ? processes_.size() : most_looks);
  for (std::size_t look = 0; look < looks; ++look) {
    // Empties the kernel's buffers of fault events, which may overflow during this.
    if (look % 8 == 7) take_faults();
    next_look_ = next_look_ + 1 < processes_.size() ? next_look_ + 1 : 0;
    const auto& process = processes_[next_look_];
    if (now >= process->next_counters_ns) {
      add_counters(*process, false);
      split_memory(*process, now);
      process->next_counters_ns =
          now + std::max(process->looks.interval_ns(), processes_.size() * least_ns_between_counters);
    }
    ask_to_wait(*process);
    const bool over = (all || now >= process->next_look_ns) && look_closely(*process, now);
    // The end of the main program is reported by program_ended(), as this process is its parent.
    if (over && (all || process->pid != main_process_)) {
      ended.push_back(process.get());
    } else if (now >= process->next_checkpoint_ns && is_worth_a_file(*process)) {
      const std::uint64_t begin = thread_clock_ns();
      write(*process, false);
      const std::uint64_t took = thread_clock_ns() - begin;
      process->next_checkpoint_ns = now + std::max(checkpoint_ns(), took * checkpoint_share);
    }
  }
  for (process_entry* process : ended) end_process(*process);
}

std::string recording::store_now(std::uint32_t process, std::string& problem) {
  drain();
  process_entry* entry = by_process(process);
  if (entry == nullptr) {
    problem = "it has told nothing yet";
    return {};
  }
  write(*entry, false);
  problem = entry->problem;
  return entry->path;
}

std::vector<std::uint32_t> recording::running() const {
  std::vector<std::uint32_t> found;
  for (const auto& process : processes_) {
    if (process->memory && !process->superseded) found.push_back(process->pid);
  }
  return found;
}

bool recording::is_worth_a_file(const process_entry& process) const {
  if (process.pid == main_process_ && !process.superseded) return true;
  if (process.file) return true;
  if (files_.size() >= most_files) return false;
  const auto images = std::count_if(files_.begin(), files_.end(), [&process](const finished_file& one) {
    return one.process == process.pid;
  });
  if (images >= most_images) return false;
  return is_worth_a_file(process.model.allocations(), process.model.requested_bytes(),
                         process.model.seen_faults());
}

bool recording::is_worth_a_file(double allocations, double bytes, double faults) {
  return allocations >= file_allocations || bytes >= file_bytes || faults >= file_faults;
}

// A small forked child is merged into its parent; others are summed up by name.
void recording::end_without_file(process_entry& process) {
  process_entry* parent = parent_of(process);
  if (parent == nullptr) {
    fill(process, true);
    small_.add(process.result, summary_of(process.result));
    return;
  }
  auto& sum = parent->children;
  sum.processes += 1 + process.children.processes;
  sum.allocations += process.model.allocations();
  sum.own_faults += process.children.own_faults + process.early_own_faults;
  parent->early_faults += process.early_faults;
  // relaxed: an independent counter
  if (process.memory)
    sum.own_faults += static_cast<double>(process.memory->page().own_faults.load(std::memory_order_relaxed));
  const counter_row& used = process.result.counters.back();
  sum.used.minor_faults += used.faults;
  sum.used.major_faults += used.major_faults;
  sum.used.user_ns += used.user_ns;
  sum.used.system_ns += used.system_ns;
  parent->model.absorb(process.model);
  parent->result.symbols.merge(process.result.symbols);
}

void recording::end_process(process_entry& process) {
  look_for_rings(process);
  drain_process(process, ~std::uint64_t{0} >> 1);
  process.model.settle();
  add_counters(process, true);
  if (!process.superseded) process.jit.look_at(process.pid, process.start_ticks);
  if (is_worth_a_file(process)) {
    write(process, true);
    summaries_.push_back(summary_of(process.result));
    summaries_.back().path = process.path;
    summaries_.back().has_own_file = true;
  } else {
    end_without_file(process);
  }
  if (process.memory) process.result.lost_events = process.memory->lost_events();
  process.rings.clear();
  process.memory.reset();
  const auto at = std::find_if(processes_.begin(), processes_.end(),
                               [&process](const auto& one) { return one.get() == &process; });
  std::unique_ptr<process_entry> kept = std::move(*at);
  processes_.erase(at);
  if (kept->path.empty()) return;
  kept->model = process_model(model_settings{});  // frees the memory of its blocks
  ended_.push_back(std::move(kept));
}

}  // namespace tarn::profiler
