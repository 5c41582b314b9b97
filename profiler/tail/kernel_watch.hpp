// SPDX-License-Identifier: MIT
// kernel_watch: whether the calling thread took page faults between two points, waited, or lost its processor. Each thread has
// its own.
//
// The kernel writes a record of each page fault and each switch of the thread into a ring that the thread maps: while nothing
// has happened, the question costs a load. Where it refuses such events, the thread's counters are read before and after
// (getrusage): two system calls, outside of what is timed.
//
// A ring has room for 511 records. Then the kernel drops others, among them those of switches; so before a call that may take so
// many page faults the counters are read as well. Where they were not, the thread counts as preempted.
//
// Memory that malloc has the kernel populate (MADV_POPULATE_WRITE) is counted as faults, and makes no record: a call has
// populated some if the counter has risen by more than the ring had records since it was read last. A call that takes less
// time than one system call cannot have; so the caller says of each call whether it was longer (`was_long`). Where the kernel gives
// no events of its own faults (perf_event_paranoid above 1), as it writes to a fresh buffer, nobody can tell.
#pragma once

#include <linux/perf_event.h>

#include <cstdint>

namespace tarn::profiler::tail {

struct kernel_events {
  bool faulted = false;
  bool waited = false;     // the thread gave up its processor
  bool preempted = false;  // the kernel took it
};

class kernel_watch {
 public:
  // Makes the events of the calling thread. Returns 0, or why getrusage serves instead (errno). No descriptor stays open.
  int open();
  void close();
  bool sees_populated() const { return ring_ == nullptr || has_all_faults_; }

  void begin(bool may_fault_much) {
    has_usage_ = may_fault_much || ring_ == nullptr;
    if (__builtin_expect(has_usage_, 0) != 0) before_ = read_usage();
    if (__builtin_expect(ring_ == nullptr, 0) != 0) return;
    // relaxed, as in end(): the kernel writes it on this thread
    const std::uint64_t head = __atomic_load_n(&ring_->data_head, __ATOMIC_RELAXED);
    if (__builtin_expect(head != begin_, 0) != 0) read_records(head);
    begin_ = head;
    // The whole ring is free.
    __atomic_store_n(&ring_->data_tail, begin_, __ATOMIC_RELAXED);
  }

  kernel_events end(bool was_long) {
    if (__builtin_expect(ring_ == nullptr, 0) != 0) return end_by_usage();
    const std::uint64_t head = __atomic_load_n(&ring_->data_head, __ATOMIC_RELAXED);
    kernel_events found;
    if (__builtin_expect(head != begin_, 0) != 0) found = read_records(head);
    if (__builtin_expect(was_long, 0) != 0 && has_populated()) found.faulted = true;
    return found;
  }

 private:
  struct counters {
    long faults;
    long waits;
    long preemptions;
  };
  static counters read_usage();
  kernel_events end_by_usage() const;
  // Those from begin_ on, which moves to `head`.
  kernel_events read_records(std::uint64_t head);
  // Whether memory has been populated since the last call of this.
  bool has_populated();

  perf_event_mmap_page* ring_ = nullptr;
  std::uint64_t begin_ = 0;
  long unrecorded_ = 0;  // faults of the thread less its records, when has_populated() was called last
  long records_ = 0;     // of faults, so far
  bool has_all_faults_ = false;
  bool has_usage_ = false;
  counters before_ = {};
};

}  // namespace tarn::profiler::tail
