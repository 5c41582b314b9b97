// SPDX-License-Identifier: MIT
#include "profiler/tail/tail_thread.hpp"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "os/syscall.hpp"

namespace tarn::profiler::tail {

constinit thread_local thread_part self = {};
constinit tick_source ticks_from = tick_source::counter;

namespace {

constinit const std::atomic<std::uint32_t> mark_of_nothing{0};
std::atomic<std::uint32_t>* mark_page = nullptr;  // wiped in a forked child

tail_page* page = nullptr;  // null: nothing is counted
std::uint64_t timer_ticks = 0;
std::uint64_t system_call_ticks = 0;  // what a system call takes at least
pthread_key_t end_key;
bool has_end_key = false;

void* map(long file, std::size_t bytes, int flags) {
  const long memory = os::system_call(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  return os::is_error(memory) ? nullptr : reinterpret_cast<void*>(memory);
}

tail_page* map_page(const char* path) {
  const long file = os::system_call(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
  if (os::is_error(file)) return nullptr;
  const long bytes = os::system_call(SYS_lseek, file, 0, SEEK_END);
  auto* const found = bytes == sizeof(tail_page)
                          ? static_cast<tail_page*>(map(file, sizeof(tail_page), MAP_SHARED))
                          : nullptr;
  os::system_call(SYS_close, file);
  return found != nullptr && found->header.magic == page_magic ? found : nullptr;
}

const char* path_of_page() {
  constexpr std::size_t length = std::string_view(page_variable).size();
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    if (std::strncmp(*each, page_variable, length) == 0 && (*each)[length] == '=') return *each + length + 1;
  }
  return nullptr;
}

// Other libraries' destructors may still free, in this round or in a later one: the thread then begins anew, and is here again in
// the next round. After the last one it does not, as nobody would close its ring.
void end_thread(void*) {
  self.has_ended = ++self.ends == PTHREAD_DESTRUCTOR_ITERATIONS;
  self.mark = no_mark;
  self.watch.close();
}

[[gnu::noinline]] void* call_of_nothing(std::size_t) {
  asm volatile("");
  return nullptr;
}

std::uint64_t least_time_of_system_call() {
  std::uint64_t least = ~std::uint64_t{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    recorder::call_timer timer(ticks_from);
    os::system_call(SYS_getppid);
    least = std::min(least, timer.stop().ticks);
  }
  return least;
}

// The median of many calls: what most calls take less than shown otherwise.
std::uint64_t time_of_nothing() {
  constexpr std::size_t calls = 1001;
  std::uint64_t took[calls];
  void* (*volatile function)(std::size_t) = call_of_nothing;
  for (std::uint64_t& each : took) {
    self.watch.begin(false);
    recorder::call_timer timer(ticks_from);
    function(0);
    each = timer.stop().ticks;
    self.watch.end(false);
  }
  std::nth_element(took, took + calls / 2, took + calls);
  return took[calls / 2];
}

// The mark of this process. In a forked child the memory is wiped; its first thread that comes here sets the mark, and no thread
// of the parent has the same.
std::uint32_t own_mark() {
  std::uint32_t mark = mark_page->load(std::memory_order_relaxed);
  if (mark != 0) return mark;
  const auto process = static_cast<std::uint32_t>(os::system_call(SYS_getpid));
  // relaxed: no other memory depends on it
  return mark_page->compare_exchange_strong(mark, process, std::memory_order_relaxed) ? process : mark;
}

call_state state_of(recorder::timing known, const kernel_events& events) {
  if (events.preempted) return call_state::interrupted;
  if (events.faulted) return call_state::faulted;
  // A wait ends the section, too; without one it was a signal handler.
  const bool is_handled = known == recorder::timing::interrupted && !events.waited;
  return is_handled ? call_state::interrupted : call_state::whole;
}

}  // namespace

constinit const std::atomic<std::uint32_t>* process_mark = &mark_of_nothing;

bool begin_thread() {
  if (page == nullptr || self.busy || self.has_ended) return false;
  const int error = errno;
  self.busy = true;
  self.inside = false;
  self.watch = {};
  // relaxed, as all counts: read after the process has ended
  if (const int refusal = self.watch.open(); refusal != 0) {
    page->header.refusal.store(refusal, std::memory_order_relaxed);
    page->header.by_usage.fetch_add(1, std::memory_order_relaxed);
  }
  if (self.ends == 0 || self.slot == nullptr) {
    const std::uint32_t number = page->header.threads.fetch_add(1, std::memory_order_relaxed);
    self.slot = &page->slots[number % slot_count];
  }
  if (has_end_key) pthread_setspecific(end_key, &self);
  recorder::call_timer(ticks_from).stop();  // writes to its memory, which may be a page fault
  self.mark = own_mark();
  self.busy = false;
  errno = error;
  return true;
}

void begin_process() {
  const char* const path = path_of_page();
  if (path == nullptr) return;
  auto* const mark = static_cast<std::atomic<std::uint32_t>*>(
      map(-1, static_cast<std::size_t>(getpagesize()), MAP_PRIVATE | MAP_ANONYMOUS));
  // Linux 4.14
  if (mark == nullptr || os::is_error(os::system_call(SYS_madvise, mark, getpagesize(), MADV_WIPEONFORK)))
    return;
  tail_page* const found = map_page(path);
  if (found == nullptr) return;
  has_end_key = pthread_key_create(&end_key, end_thread) == 0;
  ticks_from = found->header.source;
  mark_page = mark;
  page = found;
  if (!begin_thread()) return;
  system_call_ticks = least_time_of_system_call();
  timer_ticks = time_of_nothing();
  page->header.timer_ticks.store(timer_ticks, std::memory_order_relaxed);
  process_mark = mark_page;
}

void count(call_kind kind, std::uint8_t group, const recorder::call_time& time) {
  const call_state state = state_of(time.known, self.watch.end(time.ticks >= system_call_ticks));
  counted_calls& calls = self.slot->calls[place_of(kind, group, state)];
  const std::uint64_t ticks = time.ticks > timer_ticks ? time.ticks - timer_ticks : 0;
  // relaxed: read after the process has ended
  calls.buckets[bucket_of(ticks)].fetch_add(1, std::memory_order_relaxed);
  std::uint64_t worst = calls.worst.load(std::memory_order_relaxed);
  while (ticks > worst && !calls.worst.compare_exchange_weak(worst, ticks, std::memory_order_relaxed)) {
  }
}

}  // namespace tarn::profiler::tail
