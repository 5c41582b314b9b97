// SPDX-License-Identifier: MIT
#include "profiler/collect/recording.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include "profiler/collect/clock_price.hpp"
#include "profiler/collect/recording_process.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::profiler {

namespace {

constexpr std::uint64_t look_at_target_every_ns = second_ns / 100;
constexpr std::uint64_t first_clock_lasts_ns = second_ns;
constexpr std::size_t event_rows_per_chunk = std::size_t{1} << 16;
constexpr std::size_t many_faults = 500;  // in one drain
// How often the ring's tail is stored, so that a waiting program goes on.
constexpr std::uint64_t words_between_reports = 8192;

// attach has become the user of the process that it records, who may write less than the caller expects.
std::string reason(int error) {
  return (error == EACCES ? " by user " + std::to_string(geteuid()) : "") + ": " + std::strerror(error);
}

void try_output(const std::string& path) {
  const bool there = access(path.c_str(), F_OK) == 0;
  const int file = open_for_writing(path, 0);
  if (file < 0) {
    throw profile_error(path + ": cannot be written" + reason(errno) + "; name another file: -o FILE");
  }
  ::close(file);
  if (!there) unlink(path.c_str());
}

}  // namespace

recording::recording(const recording_settings& settings) : settings_(settings), clock_(best_tick_source()) {
  if (!settings_.output.empty()) try_output(settings_.output);
  if (settings_.output.empty()) {
    const std::string place = settings_.directory.empty() ? "." : settings_.directory;
    if (access(place.c_str(), W_OK) != 0) {
      throw profile_error("no file can be made in " + (place == "." ? "the current folder" : place) +
                          reason(errno) + "; name one elsewhere: -o FILE");
    }
  }
  if (settings_.mode != profile_mode::faults) {
    const record_mode mode = settings_.mode == profile_mode::full ? record_mode::full : record_mode::sample;
    session_ = std::make_unique<session_host>(mode, settings_.sample_bytes, settings_.first_halvings, clock_);
  }
  fault_settings faults;
  faults.everything = settings_.mode != profile_mode::sample;
  faults.mappings = settings_.mode == profile_mode::faults;
  faults.process = settings_.program;
  // Only in mode sample: mode full slows the program so much that its malloc takes longer than it would otherwise,
  // and the clock samples would count that.
  if (settings_.mode == profile_mode::sample) {
    const clock_periods periods = clock_periods_for(clock_sample_price());
    faults.clock_ns = periods.later;
    faults.first_clock_ns = periods.first;
  }
  faults_.open(faults);
  begin_ns_ = raw_clock_ns();
  const std::chrono::duration<double> since_1970 = std::chrono::system_clock::now().time_since_epoch();
  begin_seconds_ = since_1970.count();
}

recording::~recording() = default;

std::string recording::place() const { return session_ ? session_->place() : std::string(); }

std::vector<int> recording::placed_descriptors() const {
  return session_ ? session_->placed_descriptors() : std::vector<int>();
}

// From a single reading of the wall clock, so that setting the clock during the recording cannot shift processes
// against each other.
double recording::seconds_since_1970(std::uint64_t raw_ns) const {
  return begin_seconds_ + (static_cast<double>(raw_ns) - static_cast<double>(begin_ns_)) / 1e9;
}

model_settings recording::settings_of_models() const {
  model_settings models;
  models.full = settings_.mode != profile_mode::sample;
  models.sample_bytes = static_cast<double>(settings_.sample_bytes);
  models.first_halvings = settings_.first_halvings;
  models.malloc_pair_ns = settings_.prices.malloc_pair;
  models.timer_ns = settings_.prices.timed_call;
  models.fault_ns = settings_.prices.fault;
  models.unmap_page_ns = settings_.prices.unmap_page;
  models.page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
  models.join_faults = faults_.is_open();
  // Sampled blocks' events would tell no view or export more than the sites do.
  models.most_events = settings_.keep_events && settings_.mode == profile_mode::full ? most_events : 0;
  return models;
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
  const auto report = [&process](std::size_t index) {
    ring_entry& ring = process.rings[index];
    ring.reported = ring.stream.position();
    // release, pairs with the producer's acquire in make_room: these words have been read
    process.memory->ring(index).tail.store(ring.reported, std::memory_order_release);
  };
  const std::uint64_t until = until_ns > process.start_ns ? until_ns - process.start_ns : 0;
  bool much = false;
  for (std::size_t index = 0; index < process.rings.size(); ++index) {
    ring_entry& ring = process.rings[index];
    const std::uint64_t ring_words = process.memory->ring_words();
    // acquire, pairs with the producer's release in publish(): all words before `head` are written
    const std::uint64_t head = process.memory->ring(index).head.load(std::memory_order_acquire);
    const std::uint64_t waiting = head - ring.stream.position();
    if (waiting <= ring_words) {
      ring.stream.extend(head);
    } else {
      process.overwritten = true;
    }
    much = much || waiting > ring_words / 16;
    ring.has_next = ring.stream.peek(ring.next_ns);
  }
  for (;;) {
    ring_entry* first = nullptr;
    std::size_t first_index = 0;
    std::uint64_t second_ns_at = until;
    for (std::size_t index = 0; index < process.rings.size(); ++index) {
      ring_entry& ring = process.rings[index];
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
    // Takes all events that this ring has before the next event of any other ring.
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
  for (std::size_t index = 0; index < process.rings.size(); ++index) {
    const ring_entry& ring = process.rings[index];
    if (ring.stream.position() != ring.reported) report(index);
    process.overwritten = process.overwritten || ring.stream.is_broken();
  }
  return much;
}

bool recording::drain() {
  clock_.learn();
  const std::uint64_t now = raw_clock_ns();
  if (session_) {
    // relaxed: only that it changes matters
    session_->header().beat.fetch_add(1, std::memory_order_relaxed);
    take_arrivals();
  }
  take_faults();
  if (!processes_.empty() && now > processes_.front()->start_ns + first_clock_lasts_ns)
    faults_.slow_clock_down();
  bool much = new_faults_.size() > many_faults;
  for (std::size_t index = 0; index < processes_.size(); ++index) {
    look_for_rings(*processes_[index]);
    much = drain_process(*processes_[index], now) || much;
    look_at_end(*processes_[index]);
  }
  if (now - last_look_ns_ >= look_at_target_every_ns) {
    last_look_ns_ = now;
    look_after_processes(false);
  }
  return much;
}

void recording::program_started(std::uint32_t process) {
  main_process_ = process;
  main_started_ns_ = raw_clock_ns();
}

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
  finish_files();
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
  return fmt::format("profiling: {:.1f} s, {} process{}, {} allocations, {} live, {} page faults",
                     static_cast<double>(raw_clock_ns() - begin_ns_) / 1e9, processes_.size(),
                     processes_.size() == 1 ? "" : "es", say_count(std::round(allocations)), say_bytes(live),
                     say_count(std::round(faults)));
}

}  // namespace tarn::profiler
