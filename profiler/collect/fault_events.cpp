// SPDX-License-Identifier: MIT
#include "profiler/collect/fault_events.hpp"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/architecture.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::profiler {

namespace {

// An ordinary user may lock 516 KiB per processor by default (kernel.perf_event_mlock_kb): a power of two of pages,
// plus one.
constexpr std::size_t most_buffer_pages = 128;
constexpr std::size_t fewest_buffer_pages = 8;

// Mode sample: reported faults per second, as reporting one costs the program about a microsecond.
constexpr std::uint64_t recorded_per_second = 10000;

// The kernel lowers its limit while events take too much of the processor's time.
std::uint64_t most_per_second() {
  std::ifstream file("/proc/sys/kernel/perf_event_max_sample_rate");
  std::uint64_t most = 0;
  return file >> most && most > 0 ? std::min(most, recorded_per_second) : recorded_per_second;
}

// `thread` 0: the calling thread, and with attr.inherit what it starts.
int open_event(const perf_event_attr& attributes, std::uint32_t thread, int processor) {
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, static_cast<long>(thread), processor, -1,
                                  PERF_FLAG_FD_CLOEXEC));
}

// Settings common to both kinds of events: when they start, whom they cover, and the clock of their times.
void start_with(const fault_settings& settings, perf_event_attr& attributes) {
  attributes.disabled = settings.process == 0 ? 1 : 0;
  attributes.enable_on_exec = settings.process == 0 ? 1 : 0;
  attributes.inherit = 1;
  attributes.exclude_hv = 1;
  attributes.use_clockid = 1;
  attributes.clockid = CLOCK_MONOTONIC_RAW;
}

perf_event_attr attributes_for(const fault_settings& settings, bool with_kernel) {
  perf_event_attr attributes = {};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_PAGE_FAULTS;
  if (settings.everything) {
    attributes.sample_period = 1;
  } else {
    // The kernel adapts the period of each thread, starting at 1, and reports it with each fault. (With a fixed
    // period and PERF_SAMPLE_PERIOD, it would report every single fault.).
    attributes.freq = 1;
    attributes.sample_freq = most_per_second();
  }
  attributes.sample_type =
      PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_PERIOD;
  if (settings.mappings) {
    attributes.sample_type |= PERF_SAMPLE_CALLCHAIN;
    attributes.exclude_callchain_kernel = 1;
    attributes.mmap = 1;
    attributes.mmap2 = 1;
    attributes.mmap_data = 1;
    attributes.task = 1;
  }
  attributes.comm = 1;
  attributes.comm_exec = 1;
  // The id at the start of each record tells the two kinds of events apart.
  if (settings.clock_ns > 0) attributes.sample_type |= PERF_SAMPLE_IDENTIFIER;
  attributes.sample_id_all = 1;
  start_with(settings, attributes);
  attributes.exclude_kernel = with_kernel ? 0 : 1;
  return attributes;
}

// User space only: what malloc causes in the kernel is priced separately.
bool has_first_clock(const fault_settings& settings) {
  return settings.first_clock_ns > 0 && settings.first_clock_ns < settings.clock_ns;
}

// After a first clock the other one starts when it is told to.
perf_event_attr attributes_of_clock(const fault_settings& settings, bool is_first) {
  perf_event_attr attributes = {};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_CPU_CLOCK;
  attributes.sample_period = is_first ? settings.first_clock_ns : settings.clock_ns;
  attributes.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
  if (arch::call_pushes_return_address) {
    attributes.sample_type |= PERF_SAMPLE_STACK_USER;
    attributes.sample_stack_user = 8;
  } else {
    attributes.sample_type |= PERF_SAMPLE_REGS_USER;
    attributes.sample_regs_user = std::uint64_t{1}
                                  << arch::return_register;  // the kernel's number is the same
  }
  start_with(settings, attributes);
  if (!is_first && has_first_clock(settings)) {
    attributes.disabled = 1;
    attributes.enable_on_exec = 0;
  }
  attributes.exclude_kernel = 1;
  return attributes;
}

std::string why(int error) {
  std::ifstream file("/proc/sys/kernel/perf_event_paranoid");
  int paranoid = 0;
  const bool known = static_cast<bool>(file >> paranoid);
  if ((error == EACCES || error == EPERM) && known && paranoid > 2) {
    return "page faults cannot be seen: kernel.perf_event_paranoid is " + std::to_string(paranoid) +
           "; as root: sysctl kernel.perf_event_paranoid=2";
  }
  if (error == EPERM || error == EACCES || error == ENOSYS) {
    return std::string("page faults cannot be seen: perf_event_open is forbidden here (") +
           std::strerror(error) +
           "), as in most containers; start the container with --cap-add PERFMON, or outside of it";
  }
  if (error == EMFILE)
    return "page faults cannot be seen: too few descriptors for one event per processor (ulimit -n)";
  return std::string("page faults cannot be seen: perf_event_open: ") + std::strerror(error);
}

// The fields that follow the event's id.
clock_sample read_clock_sample(record_reader& in) {
  clock_sample sample{.instruction = in.word(), .process = in.half()};
  in.half();
  sample.time_ns = in.word();
  // The size of the stack dump, or the kind of registers that follow; 0: nothing follows.
  if (in.word() != 0) sample.caller = in.word();
  return sample;
}

}  // namespace

void kernel_events::sort() {
  const auto is_earlier = [](const auto& left, const auto& right) { return left.time_ns < right.time_ns; };
  std::sort(faults.begin(), faults.end(), is_earlier);
  std::sort(processes.begin(), processes.end(), is_earlier);
}

bool fault_events::open(const fault_settings& settings) {
  settings_ = settings;
  for (const bool with_kernel : {true, false}) {
    if (open_all(with_kernel)) {
      sees_kernel_ = with_kernel;
      refusal_.clear();
      if (settings_.clock_ns > 0) open_clock();
      return true;
    }
  }
  return false;
}

bool fault_events::open_all(bool with_kernel) {
  const long processors = sysconf(_SC_NPROCESSORS_CONF);
  for (std::size_t pages = most_buffer_pages; pages >= fewest_buffer_pages; pages /= 2) {
    int error = 0;
    for (int processor = 0; processor < processors; ++processor) {
      error = open_processor(processor, attributes_for(settings_, with_kernel), pages);
      if (error == ENODEV) error = 0;  // that processor is offline
      if (error != 0) break;
    }
    if (error == 0 && !buffers_.empty()) return true;
    close();
    refusal_ = why(error);
    if (error != EPERM && error != ENOMEM && error != EAGAIN) return false;
    // EPERM of mmap means more memory than may be locked, so try with less; EPERM of perf_event_open will just come
    // again.
  }
  return false;
}

int fault_events::open_processor(int processor, const perf_event_attr& attributes, std::size_t pages) {
  std::vector<std::uint32_t> threads = {0};
  if (settings_.process != 0) {
    threads.clear();
    for (const auto& [id, name] : thread_names(settings_.process)) threads.push_back(id);
  }
  buffer added;
  added.processor = processor;
  int error = threads.empty() ? ESRCH : 0;
  for (const std::uint32_t thread : threads) {
    const int file = open_event(attributes, thread, processor);
    if (file < 0 && errno == ESRCH && thread != settings_.process) continue;  // it has ended
    error = file < 0 ? errno : 0;
    if (error != 0) break;
    added.threads.push_back(thread);
    if (added.file >= 0) {
      added.others.push_back(file);
      if (ioctl(file, PERF_EVENT_IOC_SET_OUTPUT, added.file) != 0) error = errno;
      continue;
    }
    added.file = file;
    error = added.records.map(file, pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    if (error != 0) break;
  }
  if (added.records.is_mapped()) {
    buffers_.push_back(std::move(added));
  } else if (added.file >= 0) {
    ::close(added.file);
  }
  return error;
}

// Opens a clock event for each thread that has a fault event. False: the kernel refuses one.
bool fault_events::add_clock(buffer& to) {
  for (const std::uint32_t thread : to.threads) {
    if (has_first_clock(settings_) && !add_clock_event(to, thread, true)) return false;
    if (!add_clock_event(to, thread, false)) return false;
  }
  return true;
}

bool fault_events::add_clock_event(buffer& to, std::uint32_t thread, bool is_first) {
  const perf_event_attr attributes = attributes_of_clock(settings_, is_first);
  const int file = open_event(attributes, thread, to.processor);
  if (file < 0 && errno == ESRCH) return true;  // it has ended
  if (file < 0) return false;
  (is_first ? to.first_clocks : to.clocks).push_back(file);
  std::uint64_t id = 0;
  if (ioctl(file, PERF_EVENT_IOC_SET_OUTPUT, to.file) != 0 || ioctl(file, PERF_EVENT_IOC_ID, &id) != 0)
    return false;
  clock_ids_[id] = attributes.sample_period;
  return true;
}

// PERF_EVENT_IOC_PERIOD does not reach the events that children have inherited; PERF_EVENT_IOC_ENABLE does.
void fault_events::slow_clock_down() {
  for (buffer& one : buffers_) {
    if (one.first_clocks.empty()) continue;
    for (const int clock : one.clocks) ioctl(clock, PERF_EVENT_IOC_ENABLE, 0);
    for (const int clock : one.first_clocks) ::close(clock);
    one.first_clocks.clear();
  }
}

void fault_events::open_clock() {
  for (buffer& one : buffers_) {
    if (!add_clock(one)) return close_clock();
  }
}

void fault_events::close_clock() {
  for (buffer& one : buffers_) {
    for (const int clock : one.clocks) ::close(clock);
    for (const int clock : one.first_clocks) ::close(clock);
    one.clocks.clear();
    one.first_clocks.clear();
  }
  clock_ids_.clear();
}

void fault_events::close() {
  close_clock();
  for (const buffer& one : buffers_) {
    for (const int other : one.others) ::close(other);
    ::close(one.file);
  }
  buffers_.clear();
}

void fault_events::take(kernel_events& to) {
  for (buffer& one : buffers_) take_from(one.records, to);
}

void fault_events::take_from(perf_ring& records, kernel_events& to) {
  const std::uint64_t head = records.head();
  std::uint64_t tail = records.tail();
  while (tail < head) {
    perf_event_header header = {};
    const unsigned char* const begin = records.record_at(tail, head, header);
    if (begin == nullptr) break;
    record_reader in(header, begin);
    take(in, to);
    tail += header.size;
  }
  records.set_tail(tail);
}

void fault_events::take(record_reader& in, kernel_events& to) {
  switch (in.header().type) {
    case PERF_RECORD_SAMPLE: return take_sample(in, to);
    case PERF_RECORD_LOST:
      in.word();  // the id of the event whose record follows
      lost_ += static_cast<double>(in.word());
      return;
    case PERF_RECORD_MMAP2: return take_mapping(in, to.mappings.emplace_back());
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
    case PERF_RECORD_COMM: return take_process(in, to.processes.emplace_back());
    default: return;
  }
}

void fault_events::take_sample(record_reader& in, kernel_events& to) {
  if (has_ids()) {
    if (const auto period = clock_ids_.find(in.word()); period != clock_ids_.end()) {
      to.clock.push_back(read_clock_sample(in));
      to.clock.back().period_ns = period->second;
      ticks_recorded_ += 1;
      return;
    }
  }
  page_fault& fault = to.faults.emplace_back();
  fault.instruction = in.word();
  fault.process = in.half();
  fault.thread = in.half();
  fault.time_ns = in.word();
  fault.address = in.word();
  fault.weight = static_cast<double>(std::max<std::uint64_t>(1, in.word()));
  recorded_ += 1;
  seen_ += fault.weight;
  fault.in_kernel = (in.header().misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
  if (!settings_.mappings) return;
  for (std::uint64_t left = in.word(); left > 0 && !in.is_at_end(); --left) {
    const std::uint64_t caller = in.word();
    if (caller < PERF_CONTEXT_MAX) fault.callers.push_back(caller);
  }
}

void fault_events::take_mapping(record_reader& in, mapping_event& to) const {
  to.process = in.half();
  in.half();
  to.start = in.word();
  to.bytes = in.word();
  to.file_offset = in.word();
  in.word();  // device or build-id
  in.word();
  in.word();
  to.executable = (in.half() & PROT_EXEC) != 0;
  in.half();
  to.path = in.text();
  to.time_ns = in.time_at_end(has_ids());
}

void fault_events::take_process(record_reader& in, process_event& to) const {
  to.process = in.half();
  if (in.header().type == PERF_RECORD_COMM) {
    const bool is_exec = (in.header().misc & PERF_RECORD_MISC_COMM_EXEC) != 0;
    to.kind = is_exec ? process_event::what::executed : process_event::what::named;
    to.thread = in.half();
    to.name = in.text();
  } else {
    const bool is_fork = in.header().type == PERF_RECORD_FORK;
    to.kind = is_fork ? process_event::what::forked : process_event::what::ended;
    to.parent = in.half();
    to.thread = in.half();
  }
  to.time_ns = in.time_at_end(has_ids());
}

}  // namespace tarn::profiler
