// SPDX-License-Identifier: MIT
#include "profiler/record/recorder_state.hpp"

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>

#include <cstring>

#include "os/syscall.hpp"
#include "profiler/record/own_calls.hpp"

namespace tarn::profiler::recorder {

constinit session_link session;
constinit rule_table rules;
constinit process_state* process = nullptr;
constinit bool started = false;
constinit std::int64_t sample_base = 0;

long pid_now() { return own_call(SYS_getpid); }

void* map_wiped(std::size_t bytes) {
  void* memory = map_pages(bytes);
  if (memory == nullptr) return nullptr;
  if (failed(os::system_call(SYS_madvise, reinterpret_cast<long>(memory), static_cast<long>(bytes),
                             MADV_WIPEONFORK))) {
    unmap_pages(memory, bytes);
    return nullptr;
  }
  return memory;
}

namespace {

// Not wiped by fork: in a child, the serial and pid of its parent.
std::uint64_t last_serial = 0;
std::int32_t last_pid = 0;
extern "C" [[gnu::visibility("hidden")]] const char __ehdr_start;  // NOLINT(readability-identifier-naming)
extern "C" [[gnu::visibility("hidden")]] const char _end;          // NOLINT(readability-identifier-naming)

// Copies a path; of one that is too long, the end is kept, as it says most.
void keep_path(char (&room)[path_room], const char* path, std::size_t length) {
  const std::size_t skipped = length < path_room ? 0 : length - path_room + 1;
  std::memcpy(room, path + skipped, length - skipped);
  room[length - skipped] = 0;
}

// A random number; never 0.
std::uint64_t new_serial() {
  std::uint64_t serial = 0;
  if (os::system_call(SYS_getrandom, reinterpret_cast<long>(&serial), sizeof serial, GRND_NONBLOCK) !=
      sizeof serial) {
    serial = ticks_now() * 0x9e3779b97f4a7c15U ^ static_cast<std::uint64_t>(pid_now());
  }
  return serial | 1;
}

void fill_page(process_page& page) {
  const auto pid = static_cast<std::int32_t>(pid_now());
  page.pid = pid;
  page.parent_pid = static_cast<std::int32_t>(os::system_call(SYS_getppid));
  page.serial = new_serial();
  page.parent_serial = last_pid != pid ? last_serial : 0;
  page.start_ticks = ticks_now();
  page.at_start = usage_now();
  const std::uint64_t faults = thread_faults();
  page.own_faults_before = faults - self.faults_before;
  page.own_start = reinterpret_cast<std::uint64_t>(&__ehdr_start);
  page.own_end = reinterpret_cast<std::uint64_t>(&_end);
  char path[4096];
  const long length = os::system_call(SYS_readlinkat, AT_FDCWD, reinterpret_cast<long>("/proc/self/exe"),
                                      reinterpret_cast<long>(path), sizeof path);
  keep_path(page.program, path, failed(length) ? 0 : static_cast<std::size_t>(length));
  // Null before libc is initialised.
  const char* const command = program_invocation_name;
  if (command != nullptr) keep_path(page.command, command, std::strlen(command));
  loaded_module allocator;
  if (find_module(reinterpret_cast<std::uintptr_t>(real.malloc), allocator) && allocator.path != nullptr) {
    keep_path(page.allocator, allocator.path, std::strlen(allocator.path));
    page.allocator_start = allocator.start;
    page.allocator_end = allocator.end;
  }
  last_serial = page.serial;
  last_pid = pid;
}

}  // namespace

bool attach() {
  // acquire: partner of the release below: process->file is filled
  if (process->attaching.load(std::memory_order_acquire) == attached) return true;
  // Attaching needs system calls for a new process file, as in a forked child; in a sandbox there are none.
  if (in_sandbox() || has_fallen_silent()) {
    detach();
    return false;
  }
  std::uint32_t state = not_attached;
  if (!process->attaching.compare_exchange_strong(state, under_way, std::memory_order_acquire)) {
    return state == attached;
  }
  // relaxed: a stale value only means some events that nothing reads
  process_file file;
  const bool wanted = session.header->recording.load(std::memory_order_relaxed) != 0;
  const int descriptor = wanted ? make_process_file(*session.header, file) : -1;
  if (descriptor < 0) {
    detach();
    return false;
  }
  fill_page(*file.page);
  if (!send_process_file(session, descriptor)) {
    unmap_process_file(*session.header, file);
    detach();
    return false;
  }
  if (session.header->mode == record_mode::full) {
    static const block_filter everything = {0, 1};
    filter.store(&everything, std::memory_order_release);  // partner of the acquire in wants_free
  }
  recorded_below.store(session.header->mode == record_mode::full ? INT64_MAX : sample_base,
                       std::memory_order_relaxed);
  process->file = file;
  // release: partner of the acquire above
  process->attaching.store(attached, std::memory_order_release);
  return true;
}

std::uint64_t thread_faults() {
  rusage usage = {};
  const long answer = own_call(SYS_getrusage, RUSAGE_THREAD, reinterpret_cast<long>(&usage));
  return failed(answer) ? 0 : static_cast<std::uint64_t>(usage.ru_minflt);
}

void count_own_faults() {
  const std::uint64_t now = thread_faults();
  // A seccomp filter was installed since, so the figure is 0.
  if (now < self.faults_before) return;
  // relaxed: a sum of its own
  process->file.page->own_faults.fetch_add(now - self.faults_before, std::memory_order_relaxed);
  self.faults_before = now;
}

void detach() {
  static const block_filter nothing = {0, 0};
  process->detached.store(1, std::memory_order_seq_cst);  // see find_thread
  filter.store(&nothing, std::memory_order_release);      // partner of the acquire in wants_free
  record_nothing();
}

void record_nothing() { recorded_below.store(INT64_MIN, std::memory_order_relaxed); }

usage_figures usage_now() {
  rusage usage = {};
  os::system_call(SYS_getrusage, RUSAGE_SELF, reinterpret_cast<long>(&usage));
  const auto ns = [](const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1000000000U +
           static_cast<std::uint64_t>(time.tv_usec) * 1000U;
  };
  return {static_cast<std::uint64_t>(usage.ru_minflt), static_cast<std::uint64_t>(usage.ru_majflt),
          ns(usage.ru_utime), ns(usage.ru_stime), static_cast<std::uint64_t>(usage.ru_maxrss) << 10};
}

begin_result begin_recording(const char* place) {
  started = true;
  self.faults_before = thread_faults();
  if (process == nullptr) {
    auto* made = static_cast<process_state*>(map_wiped(sizeof(process_state)));
    if (made == nullptr) {
      record_nothing();
      return begin_result::no_memory;
    }
    process = made;
  }
  session = open_session(place);
  if (session.header == nullptr) {
    detach();
    return begin_result::no_session;
  }
  process->detached.store(0, std::memory_order_relaxed);
  follow_thread_ends();
  sample_base += most_countdown;
  if (find_thread() == nullptr) return begin_result::no_file;
  count_own_faults();
  return begin_result::recording;
}

bool release_recording() {
  if (process == nullptr || session.header == nullptr) return true;
  detach();
  if (process->arriving.load(std::memory_order_seq_cst) != 0) return false;
  const os::lock_guard hold(process->threads_lock);
  for (const thread_state* state = process->threads; state != nullptr; state = state->next) {
    // acquire: partner of the release in leave
    if (state->inside.load(std::memory_order_acquire) != 0) return false;
  }
  unmap_process_file(*session.header, process->file);
  unmap_pages(const_cast<session_header*>(session.header), sizeof(session_header));
  session = {};
  release_threads();
  process->samples.release();
  process->distances_drawn.store(0, std::memory_order_relaxed);
  process->large.store(nullptr, std::memory_order_relaxed);
  process->file = {};
  process->reported.forget();
  process->attaching.store(not_attached, std::memory_order_relaxed);
  last_serial = 0;
  return true;
}

}  // namespace tarn::profiler::recorder
