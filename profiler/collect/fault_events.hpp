// SPDX-License-Identifier: MIT
// fault_events: the page faults of a program as the kernel reports them (perf_event_open): when, at which address,
// by which instruction of which thread. On request also samples of the clock: where the program is in user space
// after each fixed amount of a thread's processor time. Both go through the same ring buffers. The events are
// opened before the program starts, by its parent, and cover all its descendants; or for all threads of a process
// that runs already. No special rights are needed where kernel.perf_event_paranoid is 2 or less; page faults inside
// the kernel (in read(), for example) are seen as root, or at 1 or less.
//
// For one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "profiler/collect/perf_ring.hpp"

namespace tarn::profiler {

struct page_fault {
  std::uint64_t time_ns = 0;  // CLOCK_MONOTONIC_RAW
  std::uint64_t address = 0;
  std::uint64_t instruction = 0;
  std::uint32_t process = 0;
  std::uint32_t thread = 0;
  double weight = 1;
  bool in_kernel = false;
  // Return addresses, unwound by frame pointers; only with fault_settings::mappings.
  std::vector<std::uint64_t> callers;
};

struct clock_sample {
  std::uint64_t time_ns = 0;      // CLOCK_MONOTONIC_RAW
  std::uint64_t instruction = 0;  // the next one to execute
  // Return address of the sampled function if it is a leaf without a frame; meaningless otherwise.
  std::uint64_t caller = 0;
  std::uint32_t process = 0;
  std::uint64_t period_ns = 0;  // processor time for which it stands
};

// A change of an address space; mode faults only.
struct mapping_event {
  std::uint64_t time_ns = 0;
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  std::uint64_t file_offset = 0;
  std::uint32_t process = 0;
  bool executable = false;
  std::string path;
};
struct process_event {
  enum class what : std::uint8_t { forked, named, executed, ended };
  std::uint64_t time_ns = 0;
  std::uint32_t process = 0;
  std::uint32_t thread = 0;
  std::uint32_t parent = 0;
  what kind = what::forked;
  std::string name;
};

// Records that have been taken. Those of different processors are not in the order of their times.
struct kernel_events {
  std::vector<page_fault> faults;
  std::vector<mapping_event> mappings;
  std::vector<process_event> processes;
  std::vector<clock_sample> clock;

  void clear() {
    faults.clear();
    mappings.clear();
    processes.clear();
    clock.clear();
  }
  void sort();  // faults and processes, by their times
};

struct fault_settings {
  // Report every fault; false: a sample whose cost is small, each fault with a weight.
  bool everything = true;
  bool mappings = false;  // also report mappings, processes and call chains: for mode faults
  // A process that runs already, with all its threads; 0: the children of this process.
  std::uint32_t process = 0;
  // A thread's processor time between two samples of the clock; 0: no samples. Not together with `mappings`.
  std::uint64_t clock_ns = 0;
  // The same until slow_clock_down() is called; 0: no other than clock_ns.
  std::uint64_t first_clock_ns = 0;
};

// The kernel counts dropped faults and dropped clock samples together; they are divided in the proportion of the
// records that arrived.
constexpr double lost_faults(double lost_records, double faults_recorded, double ticks_recorded) noexcept {
  return faults_recorded > 0 ? lost_records * faults_recorded / (faults_recorded + ticks_recorded)
                             : lost_records;
}

class fault_events {
 public:
  fault_events() = default;
  ~fault_events() { close(); }
  fault_events(const fault_events&) = delete;
  fault_events& operator=(const fault_events&) = delete;

  // With settings.process 0: counts the children that this process forks from now on, once they call exec.
  // Otherwise: all threads of that process, at once. False: refusal() says why.
  bool open(const fault_settings& settings);
  void close();
  bool is_open() const noexcept { return !buffers_.empty(); }
  bool sees_kernel() const noexcept { return sees_kernel_; }
  // 0: the clock is not sampled.
  std::uint64_t clock_ns() const noexcept { return clock_ids_.empty() ? 0 : settings_.clock_ns; }
  const std::string& refusal() const noexcept { return refusal_; }
  // From now on a sample per settings.clock_ns; does nothing the second time.
  void slow_clock_down();

  // Appends all new records.
  void take(kernel_events& to);
  // Faults whose records the kernel dropped because a buffer was full.
  double lost() const noexcept { return lost_faults(lost_, recorded_, ticks_recorded_); }
  // Faults per reported fault; 1 at least.
  double period() const noexcept { return recorded_ > 0 ? seen_ / recorded_ : 1; }

 private:
  struct buffer {
    int file = -1;
    perf_ring records;
    int processor = 0;
    std::vector<std::uint32_t> threads;  // that have a fault event on this processor
    std::vector<int> others;        // fault events of the other threads, which share the first event's memory
    std::vector<int> clocks;        // clock events of the same threads, in the same memory
    std::vector<int> first_clocks;  // likewise, until slow_clock_down()
  };
  // Opens one event for each thread on `processor`, and the memory that they share. Returns an errno value; 0:
  // success.
  int open_processor(int processor, const perf_event_attr& attributes, std::size_t pages);
  bool open_all(bool with_kernel);
  // Adds the clock's events on all processors, or on none if one of them fails.
  void open_clock();
  bool add_clock(buffer& to);
  bool add_clock_event(buffer& to, std::uint32_t thread, bool is_first);
  void close_clock();
  bool has_ids() const noexcept { return settings_.clock_ns > 0; }
  void take_from(perf_ring& records, kernel_events& to);
  void take(record_reader& in, kernel_events& to);
  void take_sample(record_reader& in, kernel_events& to);
  void take_mapping(record_reader& in, mapping_event& to) const;
  void take_process(record_reader& in, process_event& to) const;

  fault_settings settings_;
  std::vector<buffer> buffers_;
  // The period of each clock event, by its id, which is in its records.
  std::unordered_map<std::uint64_t, std::uint64_t> clock_ids_;
  bool sees_kernel_ = false;
  double recorded_ = 0;
  double seen_ = 0;
  double ticks_recorded_ = 0;  // samples of the clock
  double lost_ = 0;            // dropped records of both kinds
  std::string refusal_;
};

}  // namespace tarn::profiler
