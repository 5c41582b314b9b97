// SPDX-License-Identifier: MIT
// system_probes: functions that check whether the system does what a test depends on, each with the reason to print
// when the test is skipped. An emulator of system calls (qemu-user) reports success for some calls that it does not
// carry out.
//
// Used by unit tests and by guarantee programs. Thread safety: every function may be called by any thread. None
// allocates, but libc may when one starts threads. Invariant: a probe tries what the test needs; it never asks for the
// system's name.
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace system_probes {

// madvise on memory that is not mapped must fail. qemu-user carries out MADV_DONTNEED only, and reports success for all
// other advice.
inline bool advice_is_carried_out() {
  constexpr int advice = 23;  // MADV_POPULATE_WRITE, Linux 5.14; older kernels refuse it
  const auto length = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const page = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  munmap(page, length);
  return madvise(page, length, advice) != 0;
}
inline constexpr const char* no_advice =
    "madvise answers success on memory that is not mapped, and does nothing";

// In a forked child, a page with MADV_WIPEONFORK must be zero.
inline bool children_find_wiped_memory() {
  const auto length = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  auto* const page = static_cast<volatile unsigned char*>(memory);
  page[0] = 1;
  const bool advised = madvise(memory, length, MADV_WIPEONFORK) == 0;
  const pid_t child = fork();
  if (child == 0) _exit(page[0]);
  int status = 1;
  waitpid(child, &status, 0);
  munmap(memory, length);
  return advised && status == 0;
}
inline constexpr const char* no_wiping = "a forked child finds the content of a page with MADV_WIPEONFORK";

// A child of vfork must share its parent's memory; qemu-user uses fork instead.
inline bool vfork_shares_memory() {
  static volatile bool seen;
  seen = false;
  const pid_t child = vfork();
  if (child == 0) {
    seen = true;
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return seen;
}
inline constexpr const char* no_vfork = "a child of vfork does not share its parent's memory";

// execve of a program of this architecture must succeed. Under qemu-user it fails unless the kernel knows the emulator
// (binfmt_misc).
inline bool own_program_can_be_executed() {
  char path[4096] = {};
  int ends[2];
  if (readlink("/proc/self/exe", path, sizeof path - 1) <= 0 || pipe2(ends, O_CLOEXEC) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    char option[] = "--gtest_list_tests";
    char* const arguments[] = {path, option, nullptr};
    close(STDOUT_FILENO);
    execv(path, arguments);
    _exit(write(ends[1], "x", 1) == 1 ? 1 : 2);
  }
  close(ends[1]);
  char failed = 0;
  const bool executed = read(ends[0], &failed, 1) == 0;  // end of file: execve has closed the pipe
  close(ends[0]);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return executed;
}
inline constexpr const char* no_execution = "the kernel does not execute programs of this architecture";

// mmap must refuse a mapping that exceeds RLIMIT_AS. qemu-user stores the limit and does not apply it.
inline bool address_space_is_limited() {
  const pid_t child = fork();
  if (child == 0) {
    constexpr std::size_t limit = 64 << 20;
    const rlimit tight = {limit, limit};
    if (setrlimit(RLIMIT_AS, &tight) != 0) _exit(1);
    _exit(mmap(nullptr, 2 * limit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) ==
                  MAP_FAILED
              ? 0
              : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0;
}
inline constexpr const char* no_limit = "RLIMIT_AS is not applied";

// mremap with MREMAP_DONTUNMAP must move a page to the address given as a hint; qemu-user chooses another one.
inline bool moved_pages_go_where_asked() {
  constexpr int dont_unmap = 4;  // MREMAP_DONTUNMAP, Linux 5.7
  const auto length = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const page = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* const place = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || place == MAP_FAILED) return false;
  munmap(place, length);
  void* const moved = mremap(page, length, length, MREMAP_MAYMOVE | dont_unmap, place);
  munmap(page, length);
  if (moved != MAP_FAILED) munmap(moved, length);
  return moved == place;
}
inline constexpr const char* no_moving = "mremap with MREMAP_DONTUNMAP ignores the place that it is given";

// Resident memory of this process, in bytes; 0 if /proc is not readable.
inline std::size_t resident_set() {
  char text[128] = {};
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0 || read(file, text, sizeof text - 1) <= 0) text[0] = '\0';
  if (file >= 0) close(file);
  char* resident = text;
  strtoul(text, &resident, 10);
  return strtoul(resident, nullptr, 10) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// /proc/thread-self/maps must list this process's memory; under qemu-user it lists the emulator's.
inline bool memory_map_is_own() {
  std::FILE* const file = std::fopen("/proc/thread-self/maps", "r");
  if (file == nullptr) return false;
  const auto wanted = reinterpret_cast<unsigned long>(&memory_map_is_own);
  unsigned long start = 0;
  unsigned long end = 0;
  bool found = false;
  while (!found && std::fscanf(file, "%lx-%lx%*[^\n]", &start, &end) == 2)
    found = start <= wanted && wanted < end;
  std::fclose(file);
  return found;
}
inline constexpr const char* foreign_map = "/proc/thread-self/maps does not list this process's memory";

// The resident set must contain the program's memory only. Under qemu-user it also contains the emulator's tables,
// which grow with mapped address space, touched or not, and with threads.
inline bool memory_figures_are_own() {
  constexpr std::size_t length = std::size_t{1} << 30;
  const std::size_t before = resident_set();
  void* const untouched =
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (untouched == MAP_FAILED) return true;
  const std::size_t after = resident_set();
  munmap(untouched, length);
  return after < before + (1 << 20);
}
inline constexpr const char* foreign_memory =
    "a mapping of 1 GiB that nobody touches makes more than 1 MiB resident";

// A signal that a thread sends itself with the siginfo of a fault must be delivered, as when a handler passes a fault
// on to the default action. qemu-user takes it for a fault of its own and fails an assertion.
inline bool faults_can_be_sent_again() {
  const pid_t child = fork();
  if (child == 0) {
    constexpr rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    close(STDERR_FILENO);
    struct sigaction arrived {};
    arrived.sa_handler = [](int) { _exit(0); };
    sigaction(SIGSEGV, &arrived, nullptr);
    siginfo_t facts{};
    facts.si_signo = SIGSEGV;
    facts.si_code = SEGV_ACCERR;
    syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGSEGV, &facts);
    _exit(1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0;
}
inline constexpr const char* no_sending =
    "a signal that a thread sends itself with the facts of a fault does not arrive";

// A child that is forked while another thread of its parent starts or ends must be able to start threads. In qemu-user
// that thread may hold a lock of the emulator, which then stays locked in the child; only SIGKILL ends the child.
inline bool children_beside_ending_threads_start_threads() {
  constexpr int forks = 10;
  constexpr int limit_ms = 20'000;
  static constexpr auto nothing = [](void*) -> void* { return nullptr; };
  static constexpr auto start_for_ever = [](void*) -> void* {
    for (pthread_t thread;;)
      if (pthread_create(&thread, nullptr, nothing, nullptr) == 0) pthread_join(thread, nullptr);
  };
  const pid_t prober = fork();
  if (prober == 0) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, start_for_ever, nullptr) != 0) _exit(1);
    for (int i = 0; i < forks; ++i) {
      const pid_t child = fork();
      if (child == 0) _exit(pthread_create(&thread, nullptr, nothing, nullptr));
      int waited_ms = 0;
      for (; waitpid(child, nullptr, WNOHANG) == 0 && waited_ms < limit_ms; waited_ms += 10) usleep(10'000);
      if (waited_ms < limit_ms) continue;
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      _exit(1);
    }
    _exit(0);
  }
  int status = 1;
  waitpid(prober, &status, 0);
  return status == 0;
}
inline constexpr const char* no_threads_in_children =
    "a child that is made while a thread starts or ends cannot start threads";

// The factor by which this machine is slower than a real one. For emulators the environment variable GUARANTEE_SLOWNESS
// sets it; the default is 1.
inline unsigned slowness() {
  const char* const told = getenv("GUARANTEE_SLOWNESS");
  const int times = told != nullptr ? atoi(told) : 1;
  return times > 0 ? static_cast<unsigned>(times) : 1;
}

}  // namespace system_probes
