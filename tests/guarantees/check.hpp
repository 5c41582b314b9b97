// SPDX-License-Identifier: MIT
// check: what all guarantee programs share: reporting, memory figures of the process, child processes, stamped blocks.
// Owner: each program includes this header once. Thread safety: every function may be called by any thread. None
// allocates or uses stdio streams, so all work in destructors, after fork, on a stack of 16 KiB and while the allocator
// under test is broken.
// Invariant: a program ends with status 0 (the guarantee holds), 1 (broken, with one line on stderr) or 77 (cannot be
// checked here).
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>

#include "../system_probes.hpp"

namespace guarantee {

inline constexpr int holds = 0;
inline constexpr int broken = 1;
inline constexpr int not_checkable = 77;

inline constexpr size_t kib = 1024;
inline constexpr size_t mib = 1024 * kib;
inline constexpr size_t gib = 1024 * mib;

// ---- reporting ----

// Makes one write(2), so that lines of several threads do not mix.
[[gnu::format(printf, 3, 0)]] inline void write_line(int descriptor, const char* prefix, const char* format,
                                                     va_list arguments) {
  char line[512];
  const size_t limit = sizeof line - 1;
  size_t length = strnlen(prefix, 128);
  memcpy(line, prefix, length);
  const int written = vsnprintf(line + length, limit - length, format, arguments);
  if (written > 0) length += static_cast<size_t>(written);
  if (length > limit - 1) length = limit - 1;
  line[length] = '\n';
  if (write(descriptor, line, length + 1) < 0) return;
}

[[noreturn, gnu::format(printf, 1, 2)]] inline void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_line(2, "BROKEN: ", format, arguments);
  va_end(arguments);
  _exit(broken);
}

[[noreturn, gnu::format(printf, 1, 2)]] inline void skip(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_line(1, "cannot be checked here: ", format, arguments);
  va_end(arguments);
  _exit(not_checkable);
}

// The figure that docs/reference/guarantees.md quotes.
[[gnu::format(printf, 1, 2)]] inline void measured(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_line(1, "measured: ", format, arguments);
  va_end(arguments);
}

#define TARN_CHECK(condition, ...)    \
  do {                                \
    if (!(condition)) [[unlikely]] {  \
      ::guarantee::fail(__VA_ARGS__); \
    }                                 \
  } while (false)

// ---- start ----

// Whether the test runs the full numbers that docs/reference/guarantees.md states, instead of those of a quick run.
inline bool long_run() {
  const char* value = getenv("GUARANTEE_LONG");
  return value != nullptr && *value != '\0' && strcmp(value, "0") != 0;
}

inline bool same_file(const char* left, const char* right) {
  char left_path[4096];
  char right_path[4096];
  return realpath(left, left_path) != nullptr && realpath(right, right_path) != nullptr &&
         strcmp(left_path, right_path) == 0;
}

// The library or program that provides `name` to this program; null if there is none.
inline const char* provider_of(const char* name) {
  void* const address = dlsym(RTLD_DEFAULT, name);
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0) return nullptr;
  return info.dli_fname;
}

// The first call of main(), in the process that CTest starts. TARN_LIB names the library that should be preloaded. The
// loader only warns about a missing file, and without this check the test would then pass or fail for libc.
inline void start() {
  const char* expected = getenv("TARN_LIB");
  if (expected == nullptr || *expected == '\0') return;
  const char* provider = provider_of("malloc");
  TARN_CHECK(provider != nullptr && same_file(provider, expected),
             "malloc comes from %s, not from TARN_LIB=%s", provider != nullptr ? provider : "nowhere",
             expected);
}

// ---- figures of this process ----

// Reads the start of a file into `buffer` and terminates it by a zero byte. Returns the number of bytes; 0 if the file
// cannot be read.
inline size_t read_start(const char* path, char* buffer, size_t capacity) {
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  const ssize_t got = read(descriptor, buffer, capacity - 1);
  close(descriptor);
  const size_t length = got > 0 ? static_cast<size_t>(got) : 0;
  buffer[length] = '\0';
  return length;
}

inline size_t read_number(const char* path) {
  char text[64];
  return read_start(path, text, sizeof text) > 0 ? strtoul(text, nullptr, 10) : 0;
}

inline size_t rss_bytes() {
  const size_t bytes = system_probes::resident_set();
  if (bytes == 0) skip("/proc/self/statm cannot be read");
  return bytes;
}

// Whether the system backs all memory with huge pages without being asked: a write of one byte then makes 2 MiB
// resident.
inline bool huge_pages_everywhere() {
  char setting[64];
  return read_start("/sys/kernel/mm/transparent_hugepage/enabled", setting, sizeof setting) > 0 &&
         strstr(setting, "[always]") != nullptr;
}

// For tests whose bound on resident memory is smaller than a huge page, or counts thread stacks, which the system backs
// with huge pages as well. From here on this process and its children get no huge pages, if the system uses them
// everywhere.
inline void need_ordinary_pages() {
  if (huge_pages_everywhere() && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0)
    skip("the system backs all memory with huge pages, and PR_SET_THP_DISABLE fails: %s", strerror(errno));
}

// The largest resident set of this process so far.
inline size_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * kib;
}

inline size_t vma_count() {
  const int descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) skip("/proc/self/maps cannot be read");
  char buffer[4096];
  size_t lines = 0;
  for (ssize_t got; (got = read(descriptor, buffer, sizeof buffer)) > 0;) {
    for (ssize_t i = 0; i < got; ++i) lines += buffer[i] == '\n';
  }
  close(descriptor);
  return lines;
}

inline double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}
inline double wall_seconds() { return seconds_of(CLOCK_MONOTONIC); }
inline double cpu_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

inline double in_mib(size_t bytes) { return static_cast<double>(bytes) / static_cast<double>(mib); }
inline size_t growth(size_t before, size_t after) { return after > before ? after - before : 0; }

inline void sleep_ms(long milliseconds) {
  timespec pause{milliseconds / 1000, (milliseconds % 1000) * 1'000'000};
  while (nanosleep(&pause, &pause) != 0) {
  }
}

// ---- memory that the allocator under test does not own ----

template <typename type>
type* own_array(size_t count) {
  void* const memory = mmap(nullptr, count * sizeof(type), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) skip("mmap of %zu bytes for the test's own records failed", count * sizeof(type));
  return static_cast<type*>(memory);
}

template <typename type>
type* shared_with_children() {
  void* const memory = mmap(nullptr, sizeof(type), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) skip("mmap of a shared page failed");
  return static_cast<type*>(memory);
}

// Hides the value from the optimiser.
template <typename type>
type hide(type value) {
  asm volatile("" : "+r"(value) : : "memory");
  return value;
}

// ---- numbers and stamps ----

// splitmix64: any seed gives a good sequence, and neighbouring seeds give unrelated ones.
class random_numbers {
 public:
  explicit random_numbers(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  size_t below(size_t limit) { return static_cast<size_t>(next() % limit); }
  // Log-uniform over [1, 2^bits): each power of two is equally likely.
  size_t size_up_to_bits(unsigned bits) {
    const unsigned shift = static_cast<unsigned>(below(bits)) + 1;
    return (static_cast<size_t>(1) << (shift - 1)) + below(static_cast<size_t>(1) << (shift - 1));
  }

 private:
  uint64_t state_;
};

inline uint64_t stamp_word(uint64_t seed, size_t index) { return (seed + index) * 0x9e3779b97f4a7c15U; }

// Fills bytes [from, to) of a block. The value of a byte depends only on the seed and its offset, so a block can be
// stamped and checked in parts. `from` may be any offset.
inline void stamp(void* block, uint64_t seed, size_t from, size_t to) {
  unsigned char* const bytes = static_cast<unsigned char*>(block);
  size_t i = from;
  for (; i < to && i % 8 != 0; ++i)
    bytes[i] = static_cast<unsigned char>(stamp_word(seed, i / 8) >> (i % 8 * 8));
  for (; i + 8 <= to; i += 8) {
    const uint64_t word = stamp_word(seed, i / 8);
    __builtin_memcpy(bytes + i, &word, 8);
  }
  for (; i < to; ++i) bytes[i] = static_cast<unsigned char>(stamp_word(seed, i / 8) >> (i % 8 * 8));
}

// The offset of the first byte of [0, size) that differs from its stamp; `size` if none does.
inline size_t first_difference(const void* block, uint64_t seed, size_t size) {
  const unsigned char* const bytes = static_cast<const unsigned char*>(block);
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    uint64_t word;
    __builtin_memcpy(&word, bytes + i, 8);
    if (word != stamp_word(seed, i / 8)) break;
  }
  for (; i < size; ++i) {
    if (bytes[i] != static_cast<unsigned char>(stamp_word(seed, i / 8) >> (i % 8 * 8))) return i;
  }
  return size;
}

inline bool stamped(const void* block, uint64_t seed, size_t size) {
  return first_difference(block, seed, size) == size;
}

// The offset of the first byte of [0, size) that is not zero; `size` if all are zero.
inline size_t first_nonzero(const void* block, size_t size) {
  const unsigned char* const bytes = static_cast<const unsigned char*>(block);
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    uint64_t word;
    __builtin_memcpy(&word, bytes + i, 8);
    if (word != 0) break;
  }
  while (i < size && bytes[i] == 0) ++i;
  return i;
}

inline bool aligned_to(const void* block, size_t alignment) {
  return reinterpret_cast<uintptr_t>(block) % alignment == 0;
}

// ---- threads and children ----

// Starts a thread; if the system refuses it, ends with 77, because the limits of this machine are not the allocator's
// fault. stack_bytes 0: a stack of the usual size.
inline pthread_t start_thread(void* (*body)(void*), void* argument, size_t stack_bytes = 0) {
  pthread_t thread{};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (stack_bytes != 0) pthread_attr_setstacksize(&attributes, stack_bytes);
  const int error = pthread_create(&thread, &attributes, body, argument);
  pthread_attr_destroy(&attributes);
  if (error != 0) skip("pthread_create: error %d", error);
  return thread;
}

struct child_result {
  bool exited;  // ended by exit or _exit, with status `code`
  int code;
  int signal;  // the signal that ended the child; SIGALRM if it took longer than allowed
  bool hung() const { return !exited && signal == SIGALRM; }
  bool good() const { return exited && code == holds; }
};

inline child_result wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) != child) {
  }
  return {WIFEXITED(status), WIFEXITED(status) ? WEXITSTATUS(status) : 0,
          WIFSIGNALED(status) ? WTERMSIG(status) : 0};
}

using system_probes::slowness;

// Forks, and calls _exit(body()) in the child. SIGALRM ends a child that takes longer than `seconds` of a real machine.
template <typename function>
child_result run_in_child(unsigned seconds, function body) {
  const pid_t child = fork();
  if (child < 0) skip("fork failed");
  if (child == 0) {
    alarm(seconds * slowness());
    _exit(body());
  }
  return wait_for(child);
}

// The same; the child dumps no core, and what it writes to stderr is put into `text`.
template <size_t capacity, typename function>
child_result run_and_hear(unsigned seconds, char (&text)[capacity], function body) {
  int ends[2];
  if (pipe(ends) != 0) skip("pipe failed");
  const child_result result = run_in_child(seconds, [&] {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(ends[1], 2);
    return body();
  });
  close(ends[1]);
  const ssize_t got = read(ends[0], text, capacity - 1);
  text[got > 0 ? got : 0] = '\0';
  close(ends[0]);
  return result;
}

inline void need_address_space_limits() {
  if (!system_probes::address_space_is_limited()) skip("%s", system_probes::no_limit);
}

inline void need_own_memory_figures() {
  if (!system_probes::memory_figures_are_own()) skip("%s", system_probes::foreign_memory);
}

// Executes this program again, in a new process, with one argument.
inline child_result run_again(unsigned seconds, const char* argument) {
  return run_in_child(seconds, [argument] {
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) return not_checkable;
    path[length] = '\0';
    execl(path, path, argument, static_cast<char*>(nullptr));
    skip("this program cannot be executed again: %s", strerror(errno));
    return broken;
  });
}

// Ends this program unless the child did well. A child that ended as broken has printed the reason.
inline void expect_good(const child_result& result, const char* what) {
  if (result.good()) return;
  if (result.exited && result.code == broken) _exit(broken);
  if (result.exited && result.code == not_checkable) _exit(not_checkable);
  TARN_CHECK(!result.hung(), "%s: hangs", what);
  TARN_CHECK(result.exited, "%s: killed by signal %d (%s)", what, result.signal, strsignal(result.signal));
  fail("%s: exit status %d", what, result.code);
}

}  // namespace guarantee
