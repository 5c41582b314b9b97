// SPDX-License-Identifier: MIT
// fault_events: page faults of the program as the kernel reports them: when, where, by which instruction of which
// thread. And, where they are asked for, samples of the clock: where the program is in user space after each stretch
// of so much processor time of a thread. Both go through the same memory. Opened before the program starts, by its
// parent, for all that it will become: no rights of its own are needed where kernel.perf_event_paranoid is 2 or less;
// faults that the kernel takes itself (in read()) are seen by root, and at 1 or less.
//
// For the thread that made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

struct perf_event_attr;  // the kernel's

namespace tarn::profiler {

struct page_fault {
  std::uint64_t time_ns = 0;  // CLOCK_MONOTONIC_RAW
  std::uint64_t address = 0;
  std::uint64_t instruction = 0;
  std::uint32_t process = 0;
  std::uint32_t thread = 0;
  double weight = 1;
  bool in_kernel = false;
  std::vector<std::uint64_t> callers;  // by frame pointers; only where they were asked for
};

struct clock_sample {
  std::uint64_t time_ns = 0;      // CLOCK_MONOTONIC_RAW
  std::uint64_t instruction = 0;  // that was about to be executed
  std::uint64_t caller =
      0;  // where the function returns to, if it is a leaf that has no frame; else of no meaning
  std::uint32_t process = 0;
};

// What changes an address space, in mode faults.
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

struct fault_settings {
  bool everything = true;     // each fault; else so many of them as cost little, each with a weight
  bool mappings = false;      // and call chains: for mode faults
  std::uint32_t process = 0;  // runs already: all its threads; 0: what this process starts
  std::uint64_t clock_ns =
      0;  // of a thread's processor time between samples of the clock; 0: none. Not with mappings
};

class fault_events {
 public:
  fault_events() = default;
  ~fault_events() { close(); }
  fault_events(const fault_events&) = delete;
  fault_events& operator=(const fault_events&) = delete;

  // For the children of this process from its next fork on, once they call exec. False: `refusal` says why.
  bool open(const fault_settings& settings);
  void close();
  bool is_open() const noexcept { return !buffers_.empty(); }
  bool sees_kernel() const noexcept { return sees_kernel_; }
  // 0: the clock is not sampled.
  std::uint64_t clock_ns() const noexcept { return clock_ids_.empty() ? 0 : settings_.clock_ns; }
  const std::string& refusal() const noexcept { return refusal_; }

  // Appends what has come, in no order between processors.
  void take(std::vector<page_fault>& faults, std::vector<mapping_event>& mappings,
            std::vector<process_event>& processes, std::vector<clock_sample>& clock);
  // Faults whose records the kernel had no room for. It counts lost records of both kinds together: the faults among
  // them are taken to be as many as among those that came.
  double lost() const noexcept { return told_ > 0 ? lost_ * told_ / (told_ + ticks_told_) : lost_; }
  // So many faults came for each one that was told; 1 at least.
  double period() const noexcept { return told_ > 0 ? seen_ / told_ : 1; }

 private:
  struct buffer {
    int file = -1;
    void* memory = nullptr;
    int processor = 0;
    std::vector<std::uint32_t> threads;  // that have an event
    std::vector<int> others;             // events of further threads, which go into the same memory
    std::vector<int> clocks;             // of the same threads, likewise
  };
  // One event for each thread on a processor, and the memory that they share. An errno value; 0: it is open.
  int open_processor(int processor, const perf_event_attr& attributes, std::size_t pages);
  bool open_all(bool with_kernel);
  // Adds the clock's events, or none of them.
  void open_clock();
  bool add_clock(buffer& to);
  void close_clock();
  void take_from(const buffer& one, std::vector<page_fault>& faults, std::vector<mapping_event>& mappings,
                 std::vector<process_event>& processes, std::vector<clock_sample>& clock);

  fault_settings settings_;
  std::vector<buffer> buffers_;
  std::unordered_set<std::uint64_t> clock_ids_;  // of all events of the clock
  std::size_t buffer_bytes_ = 0;
  std::size_t page_bytes_ = 4096;
  bool sees_kernel_ = false;
  double told_ = 0;
  double seen_ = 0;
  double ticks_told_ = 0;  // samples of the clock
  double lost_ = 0;        // records of both kinds
  std::string refusal_;
  std::vector<unsigned char> record_;
};

}  // namespace tarn::profiler
