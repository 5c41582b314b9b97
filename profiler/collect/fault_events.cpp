// SPDX-License-Identifier: MIT
#include "profiler/collect/fault_events.hpp"

#include <linux/perf_event.h>
#if defined(__aarch64__)
#include <asm/perf_regs.h>
#endif
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "profiler/proc/proc_status.hpp"

namespace tarn::profiler {

namespace {

// An ordinary user may lock 516 KiB per processor by default (kernel.perf_event_mlock_kb): a power of two of pages,
// plus one.
constexpr std::size_t most_buffer_pages = 128;
constexpr std::size_t fewest_buffer_pages = 8;

// Mode sample: reported faults per second, as reporting one costs the program about a microsecond.
constexpr std::uint64_t told_per_second = 10000;

// The kernel lowers its limit while events take too much of the processor's time.
std::uint64_t most_per_second() {
  std::ifstream file("/proc/sys/kernel/perf_event_max_sample_rate");
  std::uint64_t most = 0;
  return file >> most && most > 0 ? std::min(most, told_per_second) : told_per_second;
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
#if defined(__aarch64__)
  attributes.sample_type |= PERF_SAMPLE_REGS_USER;
  attributes.sample_regs_user = std::uint64_t{1} << PERF_REG_ARM64_LR;
#else
  attributes.sample_type |= PERF_SAMPLE_STACK_USER;
  attributes.sample_stack_user = 8;
#endif
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

// Reads the fields of a record in order; beyond its end they are 0.
struct record_reader {
  const unsigned char* at;
  const unsigned char* end;
  std::uint64_t word() {
    std::uint64_t value = 0;
    if (end - at < 8) return 0;
    std::memcpy(&value, at, 8);
    at += 8;
    return value;
  }
  std::uint32_t half() {
    std::uint32_t value = 0;
    if (end - at < 4) return 0;
    std::memcpy(&value, at, 4);
    at += 4;
    return value;
  }
  std::string text() {
    const auto* begin = reinterpret_cast<const char*>(at);
    const std::size_t most = static_cast<std::size_t>(end - at);
    return {begin, strnlen(begin, most)};
  }
};

// The fields that follow the event's id.
clock_sample read_clock_sample(record_reader& in) {
  clock_sample sample;
  sample.instruction = in.word();
  sample.process = in.half();
  in.half();
  sample.time_ns = in.word();
  // The size of the stack dump, or the kind of registers that follow; 0: nothing follows.
  if (in.word() != 0) sample.caller = in.word();
  return sample;
}

// Every record that is not a sample ends with pid, tid and time, and with the event's id if samples begin with it.
std::uint64_t time_at_end(const unsigned char* end, bool has_id) {
  std::uint64_t time = 0;
  std::memcpy(&time, end - (has_id ? 16 : 8), 8);
  return time;
}

}  // namespace

bool fault_events::open(const fault_settings& settings) {
  settings_ = settings;
  page_bytes_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
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
    buffer_bytes_ = pages * page_bytes_;
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
    void* memory = mmap(nullptr, (pages + 1) * page_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) {
      added.memory = memory;
      continue;
    }
    error = errno;
    break;
  }
  if (added.memory != nullptr) {
    buffers_.push_back(added);
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
    munmap(one.memory, buffer_bytes_ + page_bytes_);
    ::close(one.file);
  }
  buffers_.clear();
}

void fault_events::take(std::vector<page_fault>& faults, std::vector<mapping_event>& mappings,
                        std::vector<process_event>& processes, std::vector<clock_sample>& clock) {
  for (const buffer& one : buffers_) take_from(one, faults, mappings, processes, clock);
}

void fault_events::take_from(const buffer& one, std::vector<page_fault>& faults,
                             std::vector<mapping_event>& mappings, std::vector<process_event>& processes,
                             std::vector<clock_sample>& clock) {
  auto* page = static_cast<perf_event_mmap_page*>(one.memory);
  const auto* data = static_cast<const unsigned char*>(one.memory) + page_bytes_;
  // acquire, pairs with the kernel's release: the records below are whole
  const std::uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
  std::uint64_t tail = page->data_tail;
  while (tail < head) {
    const std::size_t at = tail % buffer_bytes_;
    perf_event_header header = {};
    // records are aligned to 8 bytes, so the header never wraps around
    std::memcpy(&header, data + at, sizeof header);
    if (header.size < sizeof header || tail + header.size > head) break;
    const unsigned char* begin = data + at;
    if (at + header.size > buffer_bytes_) {
      record_.resize(header.size);
      const std::size_t first = buffer_bytes_ - at;
      std::memcpy(record_.data(), data + at, first);
      std::memcpy(record_.data() + first, data, header.size - first);
      begin = record_.data();
    }
    record_reader in{begin + sizeof header, begin + header.size};
    switch (header.type) {
      case PERF_RECORD_SAMPLE: {
        if (settings_.clock_ns > 0) {
          const auto period = clock_ids_.find(in.word());
          if (period != clock_ids_.end()) {
            clock.push_back(read_clock_sample(in));
            clock.back().period_ns = period->second;
            ticks_told_ += 1;
            break;
          }
        }
        page_fault& fault = faults.emplace_back();
        fault.instruction = in.word();
        fault.process = in.half();
        fault.thread = in.half();
        fault.time_ns = in.word();
        fault.address = in.word();
        fault.weight = static_cast<double>(std::max<std::uint64_t>(1, in.word()));
        told_ += 1;
        seen_ += fault.weight;
        fault.in_kernel = (header.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
        if (settings_.mappings) {
          for (std::uint64_t left = in.word(); left > 0 && in.at < in.end; --left) {
            const std::uint64_t caller = in.word();
            if (caller < PERF_CONTEXT_MAX) fault.callers.push_back(caller);
          }
        }
        break;
      }
      case PERF_RECORD_LOST:
        in.word();  // the id of the event whose record follows
        lost_ += static_cast<double>(in.word());
        break;
      case PERF_RECORD_MMAP2: {
        mapping_event& mapping = mappings.emplace_back();
        mapping.process = in.half();
        in.half();
        mapping.start = in.word();
        mapping.bytes = in.word();
        mapping.file_offset = in.word();
        in.word();  // device or build-id
        in.word();
        in.word();
        mapping.executable = (in.half() & PROT_EXEC) != 0;
        in.half();
        mapping.path = in.text();
        mapping.time_ns = time_at_end(begin + header.size, settings_.clock_ns > 0);
        break;
      }
      case PERF_RECORD_FORK:
      case PERF_RECORD_EXIT: {
        process_event& event = processes.emplace_back();
        event.kind =
            header.type == PERF_RECORD_FORK ? process_event::what::forked : process_event::what::ended;
        event.process = in.half();
        event.parent = in.half();
        event.thread = in.half();
        event.time_ns = time_at_end(begin + header.size, settings_.clock_ns > 0);
        break;
      }
      case PERF_RECORD_COMM: {
        process_event& event = processes.emplace_back();
        event.kind = (header.misc & PERF_RECORD_MISC_COMM_EXEC) != 0 ? process_event::what::executed
                                                                     : process_event::what::named;
        event.process = in.half();
        event.thread = in.half();
        event.name = in.text();
        event.time_ns = time_at_end(begin + header.size, settings_.clock_ns > 0);
        break;
      }
      default:
        break;
    }
    tail += header.size;
  }
  // release, pairs with the kernel's acquire: the records have been read
  __atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
}

}  // namespace tarn::profiler
