// SPDX-License-Identifier: MIT
// kernel_emulator: makes memory system calls fail as certain kernels and sandboxes make them fail, side effects
// included: a destination that is already unmapped, a block of which half has moved, the error of a sandbox.
// How: a seccomp filter traps the calls (SIGSYS). The handler does what that kernel would do and puts the result into
// the thread's registers. Its own calls carry a mark in their sixth argument, which the filter allows.
// Owner: one thread of a process, which calls emulate() once. Threads started later are trapped as well and must not
// block SIGSYS, as tarn's background thread does (TARN_BACKGROUND=off). Invariant: the handler makes system calls
// directly and allocates nothing.
#pragma once

#include <ucontext.h>

#include "call_filter.hpp"
#include "inject.hpp"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace guarantee::kernel {

struct call {
  long number;
  long arguments[6];
};

// What a kernel returns for a call: the result, or -errno.
using answer = long (*)(const call&);

// A multiple of the page size, because mmap's sixth argument is an offset.
inline constexpr long pass_mark = 0x74610000;
inline answer answering = nullptr;
inline size_t trapped_calls = 0;

// Makes the call as the program made it; the filter allows it because of the mark.
inline long pass(const call& c) {
  const long* const a = c.arguments;
  const long result = syscall(c.number, a[0], a[1], a[2], a[3], a[4], pass_mark);
  return result == -1 ? -errno : result;
}

inline void unmap(long start, long bytes) { pass({SYS_munmap, {start, bytes, 0, 0, 0, 0}}); }

// ---- the trap ----

#if defined(__x86_64__)
inline call trapped(const ucontext_t* context) {
  const auto* const r = context->uc_mcontext.gregs;
  return {r[REG_RAX], {r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]}};
}
inline void set_result(ucontext_t* context, long result) { context->uc_mcontext.gregs[REG_RAX] = result; }
#elif defined(__aarch64__)
inline call trapped(const ucontext_t* context) {
  const auto* const r = context->uc_mcontext.regs;
  call c{static_cast<long>(r[8]), {}};
  for (int i = 0; i < 6; ++i) c.arguments[i] = static_cast<long>(r[i]);
  return c;
}
inline void set_result(ucontext_t* context, long result) {
  context->uc_mcontext.regs[0] = static_cast<unsigned long long>(result);
}
#else
#error "unknown processor: add the registers of its system calls' arguments and result"
#endif

inline void on_trap(int, siginfo_t* info, void* context_pointer) {
  const int error = errno;
  auto* const context = static_cast<ucontext_t*>(context_pointer);
  call c = trapped(context);
  c.number = info->si_syscall;
  ++trapped_calls;
  set_result(context, answering(c));
  errno = error;
}

// From here on `how` decides the result of each mmap, mremap, munmap and madvise call of this thread and of threads
// that it starts.
inline void emulate(answer how) {
  answering = how;
  struct sigaction action {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSYS, &action, nullptr);
  constexpr unsigned mark_at = offsetof(seccomp_data, args) + 5 * sizeof(uint64_t);
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, mark_at),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, pass_mark, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  if (!install_filter(program)) skip("no seccomp filter: %s", strerror(errno));
}

// ---- kernels ----

// The number of mappings that overlap [start, start + bytes).
inline size_t mappings_in(long start, long bytes) {
  const auto from = static_cast<unsigned long>(start);
  const unsigned long to = from + static_cast<unsigned long>(bytes);
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char text[4096];
  char line[64];
  size_t length = 0;
  size_t found = 0;
  for (ssize_t got; (got = read(file, text, sizeof text)) > 0;) {
    for (ssize_t i = 0; i < got; ++i) {
      if (text[i] != '\n') {
        if (length < sizeof line - 1) line[length++] = text[i];
        continue;
      }
      line[length] = '\0';
      length = 0;
      char* rest = nullptr;
      const unsigned long begin = strtoul(line, &rest, 16);
      const unsigned long end = strtoul(rest + 1, nullptr, 16);
      found += begin < to && end > from;
    }
  }
  close(file);
  return found;
}

// If set, called between the two steps of a call that is not atomic; other threads run there.
inline void (*let_others_run)() = nullptr;

// mremap of Linux 5.7 to 6.16: unmaps the destination first, and then refuses a source that consists of several
// mappings.
inline long old_mremap(const call& c) {
  if (c.number != SYS_mremap) return pass(c);
  const bool whole = mappings_in(c.arguments[0], c.arguments[1]) == 1;
  if (whole) return pass(c);
  if ((c.arguments[3] & MREMAP_FIXED) != 0) {
    unmap(c.arguments[4], c.arguments[2]);
    if (let_others_run != nullptr) let_others_run();
  }
  return -EFAULT;
}

// mremap where the table of mappings is full: unmaps the destination first and then always fails.
inline long no_mremap(const call& c) {
  if (c.number != SYS_mremap) return pass(c);
  if ((c.arguments[3] & MREMAP_FIXED) != 0) {
    unmap(c.arguments[4], c.arguments[2]);
    if (let_others_run != nullptr) let_others_run();
  }
  return -ENOMEM;
}

// mremap of Linux 6.17 and later moves one mapping after the other. To a fixed address: moves half of the source and
// fails. Elsewhere: fails.
inline long half_moved(const call& c) {
  if (c.number != SYS_mremap || (c.arguments[3] & MREMAP_MAYMOVE) == 0) return pass(c);
  if ((c.arguments[3] & MREMAP_FIXED) == 0) return -ENOMEM;
  call half = c;
  half.arguments[1] = half.arguments[2] = c.arguments[1] / 2 / 65536 * 65536;
  if (half.arguments[1] != 0) pass(half);
  return -ENOMEM;
}

// mmap(MAP_FIXED) before Linux 6.12: unmaps what was there and then fails.
inline long fixed_mmap_leaves_hole(const call& c) {
  if (c.number != SYS_mmap || (c.arguments[3] & MAP_FIXED) == 0) return pass(c);
  unmap(c.arguments[0], c.arguments[1]);
  if (let_others_run != nullptr) let_others_run();
  return -ENOMEM;
}

// munmap that always fails, as it does in the middle of a mapping where the table of mappings is full.
inline long no_munmap(const call& c) { return c.number == SYS_munmap ? -ENOMEM : pass(c); }

template <int error>
long no_madvise(const call& c) {
  return c.number == SYS_madvise ? -error : pass(c);
}

// madvise before Linux 6.13: refuses guard markers in page tables (MADV_GUARD_INSTALL is 102, MADV_GUARD_REMOVE 103).
inline long no_guard_markers(const call& c) {
  const bool asked = c.number == SYS_madvise && (c.arguments[2] == 102 || c.arguments[2] == 103);
  return asked ? -EINVAL : pass(c);
}

// madvise in a sandbox, or an emulator of Linux, that reports success and does nothing.
inline long madvise_pretends(const call& c) { return c.number == SYS_madvise ? 0 : pass(c); }

}  // namespace guarantee::kernel
