// SPDX-License-Identifier: MIT
// fault_events: page faults of the program as the kernel reports them: when, where, by which instruction of which
// thread. Opened before the program starts, by its parent, for all that it will become: no rights of its own are needed
// where kernel.perf_event_paranoid is 2 or less; faults that the kernel takes itself (in read()) are seen by root, and at
// 1 or less.
//
// For the thread that made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
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
  const std::string& refusal() const noexcept { return refusal_; }

  // Appends what has come, in no order between processors.
  void take(std::vector<page_fault>& faults, std::vector<mapping_event>& mappings,
            std::vector<process_event>& processes);
  double lost() const noexcept { return lost_; }
  // So many faults came for each one that was told; 1 at least.
  double period() const noexcept { return told_ > 0 ? seen_ / told_ : 1; }

 private:
  struct buffer {
    int file = -1;
    void* memory = nullptr;
    std::vector<int> others;  // events of further threads, which go into the same memory
  };
  // One event for each thread on a processor, and the memory that they share. An errno value; 0: it is open.
  int open_processor(int processor, const perf_event_attr& attributes, std::size_t pages);
  bool open_all(bool with_kernel);
  void take_from(const buffer& one, std::vector<page_fault>& faults, std::vector<mapping_event>& mappings,
                 std::vector<process_event>& processes);

  fault_settings settings_;
  std::vector<buffer> buffers_;
  std::size_t buffer_bytes_ = 0;
  std::size_t page_bytes_ = 4096;
  bool sees_kernel_ = false;
  double told_ = 0;
  double seen_ = 0;
  double lost_ = 0;
  std::string refusal_;
  std::vector<unsigned char> record_;
};

}  // namespace tarn::profiler
