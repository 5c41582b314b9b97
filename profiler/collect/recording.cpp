// SPDX-License-Identifier: MIT
#include "profiler/collect/recording.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include "profiler/analyze/symbols.hpp"
#include "profiler/collect/memory_regions.hpp"
#include "profiler/format/printable.hpp"

namespace fs = std::filesystem;

namespace tarn::profiler {

namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;
constexpr std::uint64_t look_at_target_every_ns = second_ns / 20;
constexpr std::uint64_t counters_every_ns = second_ns;
constexpr std::uint64_t first_checkpoint_ns = 5 * second_ns;
// A checkpoint may take one part in so many of the time.
constexpr std::uint64_t checkpoint_share = 50;

std::uint64_t checkpoint_ns_of(const recording_settings& settings) {
  return settings.checkpoint_seconds > 0 ? static_cast<std::uint64_t>(settings.checkpoint_seconds * 1e9)
                                         : first_checkpoint_ns;
}
constexpr std::size_t event_rows_per_chunk = std::size_t{1} << 16;
constexpr std::size_t most_events = std::size_t{200} << 20;
constexpr std::size_t most_looks = 32;                 // at processes, each time
constexpr std::size_t many_faults = 500;               // in one drain
constexpr std::uint64_t words_between_reports = 8192;  // to a waiting program that there is room again

// A child that did less than this leaves no file of its own.
constexpr double file_allocations = 10000;
constexpr double file_bytes = 16 << 20;
constexpr double file_faults = 4096;
constexpr std::size_t most_files = 200;

bool exists(std::int32_t process) { return kill(process, 0) == 0 || errno == EPERM; }

std::string text_of(const char* room) { return {room, strnlen(room, path_room)}; }

void try_output(const std::string& path) {
  const bool there = access(path.c_str(), F_OK) == 0;
  const int file = open_for_writing(path, 0);
  if (file < 0) {
    throw profile_error(path + ": cannot be written: " + std::strerror(errno) +
                        "; name another file: -o FILE");
  }
  ::close(file);
  if (!there) unlink(path.c_str());
}

}  // namespace

// One process image: from a start of recording to exec or the end.
struct recording::process_entry final : module_sink {
  process_entry(const model_settings& settings, std::uint32_t slot_index)
      : model(settings), slot(slot_index) {}

  process_model model;
  std::uint32_t slot;
  std::uint64_t serial = 0;
  std::uint64_t parent_serial = 0;
  std::uint32_t pid = 0;
  std::uint32_t parent_pid = 0;
  std::string program;
  std::string allocator;
  std::vector<std::string> arguments;
  std::uint64_t start_ns = 0;  // on the raw clock
  std::time_t start_time = 0;
  std::uint64_t start_ticks = 0;  // of the process, as /proc has it
  usage_figures at_start;
  process_figures last;  // the newest that is known
  bool has_last = false;
  bool overwritten = false;  // some of what it told: no process writes such words
  bool superseded = false;   // by a later image of the same process
  double early_faults = 0;   // seen before the recording began
  std::vector<page_fault> faults;
  std::size_t next_fault = 0;
  std::vector<std::size_t> rings;  // indices into rings_
  profile result;                  // modules and counters are kept here
  std::unique_ptr<table_writer> file;
  std::string path;
  std::string problem;
  std::string without_events;  // why the file holds none although they were wanted
  bool has_events = false;
  stored_rows stored;
  memory_regions regions;  // mode faults: what lies where
  std::uint64_t next_counters_ns = 0;
  std::uint64_t next_checkpoint_ns = 0;

  void loaded(const std::string& path_there, std::uint64_t start, std::uint64_t end) override {
    const std::string& file_path = path_there.empty() ? program : path_there;
    for (const module_info& known : result.modules) {
      if (known.path == file_path && known.start >= start && known.start < end) return;
    }
    for (module_info& module : modules_of(file_path, start, end)) result.modules.push_back(std::move(module));
  }
};

struct recording::ring_entry {
  process_entry* owner = nullptr;  // null: free, or of a process that is gone
  event_stream stream;
  std::uint64_t reported = 0;
  bool has_next = false;
  std::uint64_t next_ns = 0;
};

recording::recording(const recording_settings& settings) : settings_(settings), clock_(best_tick_source()) {
  if (!settings_.output.empty()) try_output(settings_.output);
  if (settings_.output.empty()) {
    const std::string place = settings_.directory.empty() ? "." : settings_.directory;
    if (access(place.c_str(), W_OK) != 0) {
      throw profile_error(place + ": no file can be made here: " + std::strerror(errno) +
                          "; name one: -o FILE");
    }
  }
  if (settings_.mode != profile_mode::faults) {
    const record_mode mode = settings_.mode == profile_mode::full ? record_mode::full : record_mode::sample;
    session_ = std::make_unique<session_host>(mode, settings_.sample_bytes, clock_);
    rings_.resize(session_->rings());
  }
  fault_settings faults;
  faults.everything = settings_.mode != profile_mode::sample;
  faults.mappings = settings_.mode == profile_mode::faults;
  faults_.open(faults);
  begin_ns_ = raw_clock_ns();
}

recording::~recording() = default;

std::string recording::place() const { return session_ ? session_->place() : std::string(); }

model_settings recording::settings_of_models() const {
  model_settings models;
  models.full = settings_.mode != profile_mode::sample;
  models.sample_bytes = static_cast<double>(settings_.sample_bytes);
  models.malloc_pair_ns = settings_.prices.malloc_pair;
  models.page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
  models.join_faults = faults_.is_open();
  models.most_events = settings_.keep_events ? most_events : 0;
  return models;
}

// ---- processes and rings ----

recording::process_entry* recording::entry_of(std::uint32_t slot) {
  for (const auto& process : processes_) {
    if (process->slot == slot) return process.get();
  }
  return nullptr;
}

recording::process_entry* recording::by_process(std::uint32_t process) {
  // The newest image is the one that runs.
  for (auto at = processes_.rbegin(); at != processes_.rend(); ++at) {
    if ((*at)->pid == process) return at->get();
  }
  return nullptr;
}

recording::process_entry& recording::add_process(std::uint32_t slot) {
  const process_slot& from = session_->state().processes[slot];
  const auto pid = static_cast<std::uint32_t>(from.pid);
  if (process_entry* earlier = by_process(pid)) {
    // It has called exec. What it had told is whole.
    earlier->superseded = true;
    earlier->last.minor_faults = static_cast<double>(from.at_start.minor_faults);
    earlier->last.major_faults = static_cast<double>(from.at_start.major_faults);
    earlier->last.user_ns = static_cast<double>(from.at_start.user_ns);
    earlier->last.system_ns = static_cast<double>(from.at_start.system_ns);
    earlier->has_last = true;
    end_process(*earlier);
  }
  model_settings models = settings_of_models();
  models.allocator_start = from.allocator_start;
  models.allocator_end = from.allocator_end;
  auto added = std::make_unique<process_entry>(models, slot);
  process_entry& entry = *added;
  entry.serial = from.serial;
  entry.parent_serial = from.parent_serial;
  entry.pid = pid;
  entry.parent_pid = static_cast<std::uint32_t>(from.parent_pid);
  entry.program = text_of(from.program);
  entry.allocator = text_of(from.allocator);
  entry.start_ns = std::min(clock_.to_ns(from.start_ticks), raw_clock_ns());
  entry.start_time = std::time(nullptr);
  entry.at_start = from.at_start;
  entry.arguments = command_line_of(entry.pid);
  if (const auto status = read_process(entry.pid)) {
    entry.start_ticks = status->start_ticks;
    entry.last = *status;
    entry.has_last = true;
  }
  if (entry.parent_serial != 0) {
    for (const auto& parent : processes_) {
      if (parent->serial == entry.parent_serial) entry.result.modules = parent->result.modules;
    }
  }
  const std::uint64_t now = raw_clock_ns();
  entry.next_counters_ns = now;
  entry.next_checkpoint_ns = now + checkpoint_ns_of(settings_);
  processes_.push_back(std::move(added));
  return entry;
}

// `only`: those of that process, which is about to end.
void recording::look_for_rings(process_entry* only) {
  for (std::size_t index = 0; index < rings_.size(); ++index) {
    ring_entry& known = rings_[index];
    if (known.owner != nullptr) continue;
    ring_header& ring = session_->ring(index);
    // acquire, pairs with the producer's release: its process and position are there
    if (ring.state.load(std::memory_order_acquire) != slot_state::live) continue;
    const std::uint32_t slot = ring.process.load(std::memory_order_relaxed);
    if (slot >= process_slots) continue;
    process_entry* owner = entry_of(slot);
    if (only != nullptr && owner != only) continue;
    if (owner == nullptr) {
      // acquire, pairs with the process's release: the slot is filled
      if (session_->state().processes[slot].state.load(std::memory_order_acquire) != slot_state::live)
        continue;
      owner = &add_process(slot);
    }
    known.owner = owner;
    known.stream.reset(session_->words(index), session_->ring_words(), &owner->model, &clock_, owner,
                       owner->start_ns);
    known.reported = 0;
    owner->rings.push_back(index);
  }
}

// ---- draining ----

void recording::take_faults() {
  new_faults_.clear();
  new_mappings_.clear();
  new_processes_.clear();
  faults_.take(new_faults_, new_mappings_, new_processes_);
  if (settings_.mode == profile_mode::faults) {
    follow_processes();
    return place_faults();
  }
  for (page_fault& fault : new_faults_) {
    process_entry* owner = by_process(fault.process);
    if (owner == nullptr) {
      unplaced_faults_ += fault.weight;
    } else if (fault.time_ns < owner->start_ns) {
      owner->early_faults += fault.weight;
    } else {
      owner->faults.push_back(std::move(fault));
    }
  }
}

recording::process_entry& recording::add_seen_process(std::uint32_t pid, process_entry* parent,
                                                      std::uint64_t time_ns) {
  auto added =
      std::make_unique<process_entry>(settings_of_models(), static_cast<std::uint32_t>(process_slots));
  process_entry& entry = *added;
  entry.serial = ++last_serial_;
  entry.pid = pid;
  entry.start_ns = time_ns;
  entry.start_time = std::time(nullptr);
  if (parent != nullptr) {
    entry.parent_serial = parent->serial;
    entry.parent_pid = parent->pid;
    entry.program = parent->program;
    entry.arguments = parent->arguments;
    entry.result.modules = parent->result.modules;
    entry.regions = parent->regions;
  }
  if (const auto status = read_process(pid)) {
    entry.start_ticks = status->start_ticks;
    entry.last = *status;
    entry.has_last = true;
  }
  entry.next_counters_ns = time_ns;
  entry.next_checkpoint_ns = time_ns + first_checkpoint_ns;
  processes_.push_back(std::move(added));
  return entry;
}

// Mode faults: processes and their mappings as the kernel tells of them.
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
  }
  for (const mapping_event& mapping : new_mappings_) {
    process_entry* owner = by_process(mapping.process);
    if (owner == nullptr) continue;
    const std::uint64_t end = mapping.start + mapping.bytes;
    owner->regions.note(mapping.start, end, mapping.path);
    if (!mapping.executable || !mapping.path.starts_with('/')) continue;
    owner->result.modules.push_back(
        {mapping.path, build_id_of(mapping.path), mapping.start, end, mapping.file_offset});
  }
}

// Mode faults: a fault's site is who touched the memory, and what lies there.
void recording::place_faults() {
  std::sort(new_faults_.begin(), new_faults_.end(),
            [](const page_fault& left, const page_fault& right) { return left.time_ns < right.time_ns; });
  for (const page_fault& fault : new_faults_) {
    process_entry* owner = by_process(fault.process);
    if (owner == nullptr) {
      unplaced_faults_ += fault.weight;
      continue;
    }
    std::uint32_t node = 0;
    for (auto caller = fault.callers.rbegin(); caller != fault.callers.rend(); ++caller) {
      // The innermost is the instruction itself: symbols are looked up before a return address.
      const bool innermost = caller + 1 == fault.callers.rend();
      node = owner->model.node(node, *caller + (innermost ? 1 : 0));
    }
    const std::uint64_t since = fault.time_ns > owner->start_ns ? fault.time_ns - owner->start_ns : 0;
    owner->model.touched(
        {since, fault.address, fault.instruction, fault.thread, fault.weight, fault.in_kernel}, node,
        owner->regions.at(fault.address));
  }
}

bool recording::drain_process(process_entry& process, std::uint64_t until_ns) {
  std::sort(process.faults.begin(), process.faults.end(),
            [](const page_fault& left, const page_fault& right) { return left.time_ns < right.time_ns; });
  std::size_t next_fault = 0;
  const auto faults_until = [&](std::uint64_t time_ns) {
    while (next_fault < process.faults.size()) {
      const page_fault& fault = process.faults[next_fault];
      if (fault.time_ns - process.start_ns > time_ns) return;
      process.model.fault({fault.time_ns - process.start_ns, fault.address, fault.instruction, fault.thread,
                           fault.weight, fault.in_kernel});
      ++next_fault;
    }
  };
  const auto report = [this](std::size_t index) {
    ring_entry& ring = rings_[index];
    ring.reported = ring.stream.position();
    // release, pairs with the producer's acquire: these words have been read
    session_->ring(index).tail.store(ring.reported, std::memory_order_release);
  };
  const std::uint64_t until = until_ns > process.start_ns ? until_ns - process.start_ns : 0;
  bool much = false;
  for (const std::size_t index : process.rings) {
    ring_entry& ring = rings_[index];
    // acquire, pairs with the producer's release: the words below are written
    const std::uint64_t head = session_->ring(index).head.load(std::memory_order_acquire);
    const std::uint64_t waiting = head - ring.stream.position();
    if (waiting <= session_->ring_words()) {
      ring.stream.extend(head);
    } else {
      process.overwritten = true;
    }
    much = much || waiting > session_->ring_words() / 16;
    ring.has_next = ring.stream.peek(ring.next_ns);
  }
  for (;;) {
    ring_entry* first = nullptr;
    std::size_t first_index = 0;
    std::uint64_t second_ns_at = until;
    for (const std::size_t index : process.rings) {
      ring_entry& ring = rings_[index];
      if (!ring.has_next) continue;
      if (first == nullptr || ring.next_ns < first->next_ns) {
        if (first != nullptr) second_ns_at = std::min(second_ns_at, first->next_ns);
        first = &ring;
        first_index = index;
      } else {
        second_ns_at = std::min(second_ns_at, ring.next_ns);
      }
    }
    if (first == nullptr || first->next_ns > until) break;
    // All that this ring has before any other's next event.
    do {
      faults_until(first->next_ns);
      first->stream.take();
      if (first->stream.position() - first->reported >= words_between_reports) report(first_index);
      first->has_next = first->stream.peek(first->next_ns);
    } while (first->has_next && first->next_ns <= second_ns_at);
    if (process.model.waiting_events() >= event_rows_per_chunk) flush_events(process);
  }
  faults_until(until);
  process.faults.erase(process.faults.begin(),
                       process.faults.begin() + static_cast<std::ptrdiff_t>(next_fault));
  for (const std::size_t index : process.rings) {
    if (rings_[index].stream.position() != rings_[index].reported) report(index);
    process.overwritten = process.overwritten || rings_[index].stream.is_broken();
  }
  return much;
}

bool recording::drain() {
  clock_.learn();
  const std::uint64_t now = raw_clock_ns();
  if (session_) {
    // relaxed: only that it changes matters
    session_->header().beat.fetch_add(1, std::memory_order_relaxed);
    look_for_rings(nullptr);
  }
  take_faults();
  bool much = new_faults_.size() > many_faults;
  for (std::size_t index = 0; index < processes_.size(); ++index) {
    much = drain_process(*processes_[index], now) || much;
  }
  if (now - last_look_ns_ >= look_at_target_every_ns) {
    last_look_ns_ = now;
    look_after_processes(false);
  }
  return much;
}

// ---- what is done now and then ----

void recording::add_counters(process_entry& process, bool at_end) {
  if (const auto status = read_process(process.pid); status && !process.superseded) {
    if (process.start_ticks == 0) process.start_ticks = status->start_ticks;
    if (status->start_ticks == process.start_ticks) {
      const double resident = process.last.resident_bytes;
      process.last = *status;
      process.has_last = true;
      if (status->has_ended()) process.last.resident_bytes = resident;
    }
  }
  if (at_end && session_) {
    const process_slot& slot = session_->state().processes[process.slot];
    // acquire, pairs with the process's release: at_exit is there
    if (!process.superseded && slot.serial == process.serial &&
        slot.ended.load(std::memory_order_acquire) != 0) {
      process.last.minor_faults =
          std::max(process.last.minor_faults, static_cast<double>(slot.at_exit.minor_faults));
      process.last.major_faults =
          std::max(process.last.major_faults, static_cast<double>(slot.at_exit.major_faults));
      process.last.user_ns = std::max(process.last.user_ns, static_cast<double>(slot.at_exit.user_ns));
      process.last.system_ns = std::max(process.last.system_ns, static_cast<double>(slot.at_exit.system_ns));
    }
  }
  if (!at_end) {
    for (const auto& [id, name] : thread_names(process.pid)) process.model.name_thread_by_id(id, name);
  }
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
  row.faults = since(process.last.minor_faults, process.at_start.minor_faults);
  row.major_faults = since(process.last.major_faults, process.at_start.major_faults);
  row.user_ns = since(process.last.user_ns, process.at_start.user_ns);
  row.system_ns = since(process.last.system_ns, process.at_start.system_ns);
  row.seen_faults = process.model.seen_faults();
  process.result.counters.push_back(row);
}

void recording::look_after_processes(bool all) {
  const std::uint64_t now = raw_clock_ns();
  std::vector<process_entry*> ended;
  const std::size_t looks = std::min(processes_.size(), all ? processes_.size() : most_looks);
  for (std::size_t look = 0; look < looks; ++look) {
    // The kernel's buffers must not run over meanwhile.
    if (look % 8 == 7) take_faults();
    next_look_ = next_look_ + 1 < processes_.size() ? next_look_ + 1 : 0;
    const auto& process = processes_[next_look_];
    if (now >= process->next_counters_ns) {
      add_counters(*process, false);
      process->next_counters_ns = now + counters_every_ns;
    }
    const bool gone = !exists(static_cast<std::int32_t>(process->pid));
    const auto status = gone ? std::nullopt : read_process(process->pid);
    const bool other = status && process->start_ticks != 0 && status->start_ticks != process->start_ticks;
    const bool over = gone || other || (status && status->has_ended());
    // The program itself is told of by its parent, which this process is.
    if (over && (all || process->pid != main_process_)) {
      ended.push_back(process.get());
    } else if (now >= process->next_checkpoint_ns && is_worth_a_file(*process)) {
      write(*process, false);
      const std::uint64_t took = raw_clock_ns() - now;
      process->next_checkpoint_ns = now + std::max(checkpoint_ns_of(settings_), took * checkpoint_share);
    }
  }
  for (process_entry* process : ended) {
    add_counters(*process, true);
    end_process(*process);
  }
}

void recording::release_shared(process_entry& process) {
  if (!session_) return;
  process_slot& slot = session_->state().processes[process.slot];
  process.result.lost_events = static_cast<double>(slot.lost_nested.load(std::memory_order_relaxed) +
                                                   slot.lost_waiting.load(std::memory_order_relaxed) +
                                                   slot.lost_threads.load(std::memory_order_relaxed));
  for (const std::size_t index : process.rings) {
    rings_[index].owner = nullptr;
    rings_[index].stream = {};
    // release, pairs with the next owner's acquire
    session_->ring(index).state.store(slot_state::free, std::memory_order_release);
  }
  process.rings.clear();
  if (slot.serial == process.serial)
    slot.state.store(slot_state::free, std::memory_order_release);  // likewise
}

bool recording::is_worth_a_file(const process_entry& process) const {
  if (process.pid == main_process_ && !process.superseded) return true;
  if (process.file) return true;
  if (files_.size() >= most_files) return false;
  return process.model.allocations() >= file_allocations || process.model.requested_bytes() >= file_bytes ||
         process.model.seen_faults() >= file_faults;
}

void recording::end_process(process_entry& process) {
  look_for_rings(&process);
  drain_process(process, ~std::uint64_t{0} >> 1);
  process.model.settle();
  if (is_worth_a_file(process)) {
    write(process, true);
  } else {
    process_entry* parent = nullptr;
    for (const auto& other : processes_) {
      if (process.parent_serial != 0 && other->serial == process.parent_serial) parent = other.get();
    }
    ++small_children_;
    small_allocations_ += process.model.allocations();
    if (parent != nullptr) parent->model.absorb(process.model);
  }
  release_shared(process);
  const auto at = std::find_if(processes_.begin(), processes_.end(),
                               [&process](const auto& one) { return one.get() == &process; });
  std::unique_ptr<process_entry> kept = std::move(*at);
  processes_.erase(at);
  if (kept->path.empty()) return;
  kept->model = process_model(model_settings{});  // its blocks are of no more use
  ended_.push_back(std::move(kept));
}

// ---- files ----

bool recording::is_taken(const std::string& path) const {
  return std::any_of(files_.begin(), files_.end(),
                     [&path](const finished_file& one) { return one.path == path; });
}

// `number`: from 1 on. A process that has called exec has several files.
std::string recording::file_name(const process_entry& process, int number) const {
  const bool is_main = process.pid == main_process_ && !process.superseded;
  std::string program = printable(fs::path(process.program).filename().string());
  if (program.empty()) program = "program";
  const fs::path directory = settings_.directory;
  std::string name;
  if (settings_.output.empty()) {
    name = (directory / fmt::format("tarn-{}-{}", program, process.pid)).string();
  } else if (is_main) {
    name = fs::path(settings_.output).replace_extension().string();
  } else {
    name = fmt::format("{}-{}", fs::path(settings_.output).replace_extension().string(), process.pid);
  }
  const std::string extension =
      settings_.output.empty() ? ".prof" : fs::path(settings_.output).extension().string();
  return number == 1 ? name + extension : fmt::format("{}-{}{}", name, number, extension);
}

void recording::open_file(process_entry& process) {
  if (process.file || !process.problem.empty()) return;
  const bool is_named = !settings_.output.empty() && process.pid == main_process_ && !process.superseded;
  constexpr int most_names = 1000;
  for (int number = 1; process.path.empty(); ++number) {
    const std::string path = file_name(process, number);
    if (is_taken(path)) continue;
    if (number > most_names) {
      process.path = path;
      process.problem = path + ": files of this name and of those before it exist already";
      break;
    }
    try {
      // A name that nobody has given may be foreseen: what lies there is somebody else's.
      process.file = std::make_unique<table_writer>(path, !is_named);
      process.path = path;
    } catch (const file_exists&) {
    } catch (const profile_error& error) {
      process.path = path;
      process.problem = error.what();
    }
  }
  files_.push_back({process.path, process.program, process.pid, ""});
  if (!process.file) return;
  try {
    store(process);
  } catch (const profile_error& error) {
    process.problem = error.what();
    process.file.reset();
  }
}

// Throws profile_error.
void recording::store(process_entry& process) {
  process.model.fill(process.result);
  fill_meta(process);
  store_profile(*process.file, process.result, process.stored);
}

// Where the disk is full, single events are what a profile can best do without: the file begins anew with the rest.
void recording::give_up_events(process_entry& process, const std::string& why) {
  process.model.drop_events();
  process.stored = {};
  process.problem = why;
  if (!process.has_events) {
    process.file.reset();
    return;
  }
  process.has_events = false;
  process.without_events = "single events are left out: " + why;
  try {
    process.file.reset();
    process.file = std::make_unique<table_writer>(process.path);
    store(process);
    process.problem.clear();
  } catch (const profile_error& error) {
    process.problem = error.what();
    process.file.reset();
  }
}

void recording::flush_events(process_entry& process) {
  if (process.model.waiting_events() == 0) return;
  open_file(process);
  const table rows = process.model.take_events();
  if (!process.file) return;
  process.has_events = true;
  try {
    process.file->append(rows);
  } catch (const profile_error& error) {
    give_up_events(process, error.what());
  }
}

void recording::fill_meta(process_entry& process) {
  profile& result = process.result;
  nlohmann::json meta = settings_.meta;
  meta["program"] = process.program;
  meta["arguments"] = process.arguments;
  meta["pid"] = process.pid;
  meta["parent"] = process.parent_pid;
  meta["start"] = static_cast<std::int64_t>(process.start_time);
  meta["duration_ns"] = raw_clock_ns() - process.start_ns;
  meta["sample_bytes"] = settings_.mode == profile_mode::sample ? settings_.sample_bytes : 0;
  meta["fault_period"] = faults_.is_open() ? faults_.period() : 0;
  meta["page_bytes"] = sysconf(_SC_PAGESIZE);
  meta["allocator"] = process.allocator;
  nlohmann::json refused = meta.contains("refused") ? meta["refused"] : nlohmann::json::array();
  if (!faults_.is_open()) refused.push_back(faults_.refusal());
  if (faults_.is_open() && !faults_.sees_kernel()) {
    refused.push_back(
        "page faults that the kernel takes itself, as in read() into fresh memory, are counted, not seen (as root, or at "
        "kernel.perf_event_paranoid 1 they are)");
  }
  if (faults_.lost() > 0)
    refused.push_back(fmt::format("{:.0f} page faults were lost: they came too fast", faults_.lost()));
  if (process.model.events_cut()) {
    refused.push_back(fmt::format("the events table ends after {} events", most_events));
  }
  if (process.overwritten) {
    refused.push_back(
        "another process has overwritten some of what this one told: events are missing, or wrong");
  }
  if (!process.without_events.empty()) refused.push_back(process.without_events);
  if (!process.problem.empty()) refused.push_back(process.problem);
  meta["refused"] = refused;
  meta["small_children"] = {{"processes", small_children_}, {"allocations", small_allocations_}};
  meta["odd_events"] = process.model.odd_events();
  if (process.pid == main_process_ && !process.superseded && main_status_ >= 0) {
    meta["exit"] = WIFEXITED(main_status_) ? nlohmann::json({{"status", WEXITSTATUS(main_status_)}})
                                           : nlohmann::json({{"signal", WTERMSIG(main_status_)}});
  }
  result.meta = std::move(meta);
  result.mode = settings_.mode;
  result.prices = settings_.prices;
  if (session_) {
    const process_slot& slot = session_->state().processes[process.slot];
    if (slot.serial == process.serial) {
      result.lost_events = static_cast<double>(slot.lost_nested.load(std::memory_order_relaxed) +
                                               slot.lost_waiting.load(std::memory_order_relaxed) +
                                               slot.lost_threads.load(std::memory_order_relaxed));
      const double checked = static_cast<double>(slot.unwind_checked.load(std::memory_order_relaxed));
      const double wrong = static_cast<double>(slot.unwind_wrong.load(std::memory_order_relaxed));
      result.unwind_checked = checked;
      result.unwind_error_rate = checked > 0 ? wrong / checked : 0;
      const double own = static_cast<double>(slot.own_faults.load(std::memory_order_relaxed));
      const double all = process.last.minor_faults - static_cast<double>(process.at_start.minor_faults);
      result.unseen_faults = std::max(0.0, all - own - process.model.seen_faults());
    }
  } else {
    const double all = process.last.minor_faults - static_cast<double>(process.at_start.minor_faults);
    result.unseen_faults = std::max(0.0, all - process.model.seen_faults());
  }
  result.other_faults += process.early_faults;
}

void recording::write(process_entry& process, bool last) {
  flush_events(process);
  open_file(process);
  if (process.file) {
    try {
      store(process);
    } catch (const profile_error& error) {
      give_up_events(process, error.what());
    }
  } else {
    process.model.fill(process.result);
    fill_meta(process);
  }
  for (finished_file& one : files_) {
    if (one.path == process.path) one.problem = process.problem;
  }
  if (last) lost_ += process.result.lost_events;
}

// Names and types, once nobody waits for this process any more.
void recording::add_names() {
  for (const auto& process : ended_) {
    add_symbols(process->result);
    try {
      if (process->file) store_profile(*process->file, process->result, process->stored);
    } catch (const profile_error& error) {
      for (finished_file& one : files_) {
        if (one.path == process->path) one.problem = error.what();
      }
    }
    process->file.reset();
    if (process->pid == main_process_ && !process->superseded) {
      main_profile_ = std::make_unique<profile>(std::move(process->result));
      make_printable(*main_profile_);
    }
  }
  ended_.clear();
}

// ---- begin and end ----

void recording::program_started(std::uint32_t process) { main_process_ = process; }

void recording::program_ended(int wait_status) {
  main_status_ = wait_status;
  drain();
  if (process_entry* entry = by_process(main_process_)) add_counters(*entry, true);
}

void recording::finish() {
  drain();
  if (session_) session_->header().recording.store(0, std::memory_order_relaxed);
  // Children first, so that what they did can be added to their parents.
  while (!processes_.empty()) {
    process_entry* next = processes_.back().get();
    for (const auto& process : processes_) {
      if (process->pid != main_process_) next = process.get();
    }
    end_process(*next);
  }
  add_names();
}

std::string recording::status_line() const {
  double allocations = 0;
  double live = 0;
  double faults = 0;
  for (const auto& process : processes_) {
    allocations += process->model.allocations();
    live += process->model.live_bytes();
    faults += process->model.seen_faults();
  }
  return fmt::format(
      "profiling: {:.1f} s, {} process{}, {:.1f}M allocations, {:.1f} MiB live, {:.0f}k page faults",
      static_cast<double>(raw_clock_ns() - begin_ns_) / 1e9, processes_.size(),
      processes_.size() == 1 ? "" : "es", allocations / 1e6, live / (1 << 20), faults / 1e3);
}

}  // namespace tarn::profiler
