// SPDX-License-Identifier: MIT
// system_probes: whether this system does what some tests rest on. Emulators of the system call interface (qemu-user) answer
// success to calls that they do not carry out; there such a test says so and is skipped.
//
// Owner: whoever includes it, unit tests and guarantee programs alike. Thread safety: every function may be called by any
// thread; none allocates. Invariant: a probe asks the system for the very thing that a test needs, never for its name.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

namespace system_probes {

// madvise on memory that is not mapped must fail. qemu-user answers success and does nothing, whatever the advice but
// MADV_DONTNEED.
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

// What a forked child finds in a page with MADV_WIPEONFORK must be zero.
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

// A child of vfork must share its parent's memory; qemu-user makes it by fork.
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

// A program of this architecture must be executable: under qemu-user it is for the emulator only, unless the kernel knows
// the emulator (binfmt_misc).
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
  const bool executed = read(ends[0], &failed, 1) == 0;  // nothing: the execution has closed the pipe
  close(ends[0]);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return executed;
}
inline constexpr const char* no_execution = "the kernel does not execute programs of this architecture";

// RLIMIT_AS must refuse a mapping above it. qemu-user remembers the limit and does not apply it.
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

}  // namespace system_probes
