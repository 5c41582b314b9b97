// SPDX-License-Identifier: MIT
#include "profiler/tail/kernel_watch.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>

#include "os/syscall.hpp"

namespace tarn::profiler::tail {

namespace {

constexpr std::size_t largest_record = sizeof(perf_event_header);

// One page for positions, one for records. A record is its header alone, 8 bytes; so none goes beyond the ring's end.
std::size_t ring_bytes() { return 2 * static_cast<std::size_t>(getpagesize()); }

// `of_kernel`: faults that a system call takes, too, as it writes to the thread's memory.
perf_event_attr attributes(bool of_kernel) {
  perf_event_attr result = {};
  result.size = sizeof result;
  result.type = PERF_TYPE_SOFTWARE;
  result.config = PERF_COUNT_SW_PAGE_FAULTS;
  result.sample_period = 1;
  result.context_switch = 1;
  result.exclude_kernel = of_kernel ? 0 : 1;
  result.exclude_hv = 1;
  return result;
}

long open_event(bool of_kernel) {
  const perf_event_attr wanted = attributes(of_kernel);
  return os::system_call(SYS_perf_event_open, &wanted, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

}  // namespace

int kernel_watch::open() {
  long file = open_event(true);
  has_all_faults_ = !os::is_error(file);
  if (!has_all_faults_) file = open_event(false);
  if (os::is_error(file)) return static_cast<int>(-file);
  const long memory = os::system_call(SYS_mmap, 0, ring_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  os::system_call(SYS_close, file);  // the mapping keeps the event
  if (os::is_error(memory)) return static_cast<int>(-memory);
  ring_ = reinterpret_cast<perf_event_mmap_page*>(memory);
  // The first store is a page fault of its own, which the first call would seem to have taken.
  __atomic_store_n(&ring_->data_tail, 0, __ATOMIC_RELAXED);
  has_populated();
  return 0;
}

void kernel_watch::close() {
  if (ring_ != nullptr) os::system_call(SYS_munmap, ring_, ring_bytes());
  ring_ = nullptr;
}

kernel_events kernel_watch::read_records(std::uint64_t head) {
  const auto* const records = reinterpret_cast<const unsigned char*>(ring_) + ring_bytes() / 2;
  const std::uint64_t mask = ring_bytes() / 2 - 1;
  kernel_events found;
  const bool is_full = head - begin_ + largest_record >= ring_bytes() / 2;
  for (std::uint64_t at = begin_; at < head;) {
    const auto& record = *reinterpret_cast<const perf_event_header*>(records + (at & mask));
    if (record.size == 0) break;
    if (record.type == PERF_RECORD_SAMPLE) {
      found.faulted = true;
      ++records_;
    }
    if (record.type == PERF_RECORD_SWITCH && (record.misc & PERF_RECORD_MISC_SWITCH_OUT) != 0)
      ((record.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0 ? found.preempted : found.waited) = true;
    at += record.size;
  }
  begin_ = head;
  if (is_full) {
    found.preempted = !has_usage_ || read_usage().preemptions != before_.preemptions;
    has_populated();  // faults that had no room
  }
  return found;
}

bool kernel_watch::has_populated() {
  if (!has_all_faults_) return false;
  // Records of faults since the last call of begin(); in end() there are none.
  const long unrecorded = read_usage().faults - records_;
  const bool has = unrecorded != unrecorded_;
  unrecorded_ = unrecorded;
  return has;
}

kernel_watch::counters kernel_watch::read_usage() {
  rusage usage = {};
  os::system_call(SYS_getrusage, RUSAGE_THREAD, &usage);
  return {usage.ru_minflt + usage.ru_majflt, usage.ru_nvcsw, usage.ru_nivcsw};
}

kernel_events kernel_watch::end_by_usage() const {
  const counters now = read_usage();
  return {now.faults != before_.faults, now.waits != before_.waits, now.preemptions != before_.preemptions};
}

}  // namespace tarn::profiler::tail
