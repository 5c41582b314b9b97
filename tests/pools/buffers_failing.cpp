// SPDX-License-Identifier: MIT Buffer pools when mmap, munmap, madvise and mlock fail: all calls of one kind; for every
// n, the n-th call; and for every n, all calls from the n-th on. A request then returns a correct buffer or fails, and
// once the system calls succeed again, requests succeed as before.
// A seccomp filter turns each of these calls into SIGSYS. The handler makes the call itself, from the one instruction
// address that the filter allows, or makes it fail with ENOMEM.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <system_error>

#include "program.hpp"
#include "tarn/buffer_pool.hpp"

extern "C" long gated_call(long number, long a, long b, long c, long d, long e, long f);
extern "C" const char behind_gate[];
#if defined(__x86_64__)
asm(".text\n.globl gated_call\n.globl behind_gate\n"
    "gated_call:\n mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n mov %r8, %r10\n"
    " mov %r9, %r8\n mov 8(%rsp), %r9\n syscall\nbehind_gate:\n ret\n");
#else
asm(".text\n.globl gated_call\n.globl behind_gate\n"
    "gated_call:\n mov x8, x0\n mov x0, x1\n mov x1, x2\n mov x2, x3\n mov x3, x4\n mov x4, x5\n mov x5, x6\n"
    " svc 0\nbehind_gate:\n ret\n");
#endif

namespace {

using namespace guarantee;

constexpr int kinds = 4;
constexpr long gated_calls[kinds] = {SYS_mmap, SYS_munmap, SYS_madvise, SYS_mlock};
constexpr const char* names[kinds] = {"mmap", "munmap", "madvise", "mlock"};

struct plan {
  int kind = -1;           // all calls of this kind fail; -1: of none
  long first = 0;          // the call that fails, counted from 1; 0: none
  bool sustained = false;  // the calls after the first one fail too
};
plan current;
volatile long calls = 0;
volatile long refused = 0;
volatile bool active = false;

void on_call(int /*signal*/, siginfo_t* info, void* context) {
  auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  const greg_t* const r = machine.gregs;
  const long arguments[] = {r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]};
#else
  const auto* const r = machine.regs;
  const long arguments[] = {static_cast<long>(r[0]), static_cast<long>(r[1]), static_cast<long>(r[2]),
                            static_cast<long>(r[3]), static_cast<long>(r[4]), static_cast<long>(r[5])};
#endif
  bool refuse = false;
  if (active) {
    calls = calls + 1;
    refuse = (current.kind >= 0 && gated_calls[current.kind] == info->si_syscall) || calls == current.first ||
             (current.sustained && calls > current.first);
  }
  if (refuse) refused = refused + 1;
  const long result = refuse ? -ENOMEM
                             : gated_call(info->si_syscall, arguments[0], arguments[1], arguments[2],
                                          arguments[3], arguments[4], arguments[5]);
#if defined(__x86_64__)
  machine.gregs[REG_RAX] = result;
#else
  machine.regs[0] = static_cast<decltype(machine.regs[0] + 0)>(result);
#endif
}

void gate_calls() {
  struct sigaction action {};
  action.sa_sigaction = on_call;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSYS, &action, nullptr);
  const auto address = reinterpret_cast<uintptr_t>(behind_gate);
  sock_filter program[kinds + 7];
  int at = 0;
  program[at++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (int i = 0; i < kinds; ++i) {
    program[at++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(gated_calls[i]),
                             static_cast<unsigned char>(kinds - i), 0);
  }
  program[at++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  program[at++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, instruction_pointer));
  program[at++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(address), 0, 2);
  program[at++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, instruction_pointer) + 4);
  program[at++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(address >> 32), 1, 0);
  program[at++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
  sock_filter all[kinds + 8];
  memcpy(all, program, sizeof program);
  all[at++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog filter{static_cast<unsigned short>(at), all};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    skip("no seccomp filter: %s", strerror(errno));
  }
}

void check(const tarn::buffer& b, int value, const char* what) {
  for (size_t i = 0; i < b.size(); i += 512)
    TARN_CHECK(b.data()[i] == static_cast<std::byte>(value), "%s: byte %zu is wrong", what, i);
}

// Gets four buffers of one pool, twice, and checks those that it gets. Returns the number of refused requests.
template <class Pool>
int use(Pool& pool, bool zeroed, const char* what) {
  constexpr size_t sizes[] = {3 * mib, 100000, 5 * mib, 1 * mib};
  int refusals = 0;
  tarn::buffer all[4];
  for (int round = 0; round < 2; ++round) {
    int number = 0;
    for (tarn::buffer& b : all) {
      errno = 0;
      b = pool.try_get(sizes[number++]);
      if (!b) {
        TARN_CHECK(errno == ENOMEM || errno == EPERM, "%s: refused with errno %d", what, errno);
        ++refusals;
        continue;
      }
      if (zeroed) check(b, 0, what);
      memset(b.data(), number, b.capacity());
    }
    number = 0;
    for (tarn::buffer& b : all) {
      ++number;
      if (b) check(b, number, what);
      b.reset();
    }
    pool.trim();
  }
  return refusals;
}

int use_all() {
  tarn::buffer_pool plain({.name = "plain"});
  tarn::buffer_pool zeroed({.name = "zeroed", .alignment = 2 * mib, .zeroed = true});
  tarn::buffer_pool ready({.name = "ready",
                           .prefault = tarn::buffer_prefault::in_get,
                           .huge_pages = tarn::buffer_huge_pages::always,
                           .limit = 4 * mib});
  tarn::locked_buffer_pool locked({.name = "locked", .limit = 100000});
  int refusals = use(plain, false, "plain") + use(zeroed, true, "zeroed") + use(ready, false, "ready");
  // Where RLIMIT_MEMLOCK is low, these requests fail without injected failures too, which the caller accounts for.
  errno = 0;
  for (int i = 0; i < 2; ++i) {
    const tarn::buffer b = locked.try_get(70000);
    if (!b) {
      ++refusals;
      continue;
    }
    check(b, 0, "locked");
    memset(b.data(), 1, b.size());
  }
  (void)locked.trim();
  tarn::trim();
  return refusals;
}

// Uses all pools while calls fail as planned. Returns the number of calls.
long run(const plan& what) {
  current = what;
  calls = 0;
  refused = 0;
  active = true;
  use_all();
  active = false;
  return calls;
}

int in_child() {
  tarn_set_option("background", "off");  // the background thread blocks all signals, SIGSYS too
  tarn_set_option("decay_ms", "-1");
  const int before = use_all();
  gate_calls();
  const long all = run({});
  TARN_CHECK(all > 20, "the filter saw only %ld calls: nothing is tested", all);
  for (int kind = 0; kind < kinds; ++kind) {
    run({kind, 0, false});
    TARN_CHECK(use_all() == before, "requests are refused after %s has failed", names[kind]);
  }
  long injected = 0;
  for (long n = 1; n <= all + 20; ++n) {
    for (const bool sustained : {false, true}) {
      run({-1, n, sustained});
      injected += refused;
      TARN_CHECK(use_all() == before, "requests are refused after call %ld has failed%s", n,
                 sustained ? " and all after it" : "");
    }
  }
  measured("%ld calls, %ld refused in all", all, injected);
  return holds;
}

int without_locking() {
  const rlimit none{100000, 100000};
  if (setrlimit(RLIMIT_MEMLOCK, &none) != 0) skip("RLIMIT_MEMLOCK cannot be set");
  if (geteuid() == 0 && setuid(65534) != 0) skip("CAP_IPC_LOCK cannot be dropped");
  tarn::locked_buffer_pool keys({.name = "keys"});
  const tarn::buffer first = keys.get(60000);
  check(first, 0, "keys");
  errno = 0;
  TARN_CHECK(!keys.try_get(60000) && errno == EPERM, "beyond RLIMIT_MEMLOCK: errno is %d", errno);
  try {
    (void)keys.get(60000);
    fail("a locked buffer beyond RLIMIT_MEMLOCK");
  } catch (const std::system_error& error) {
    TARN_CHECK(
        error.code().value() == EPERM && strstr(error.what(), "RLIMIT_MEMLOCK is 100000 bytes") != nullptr,
        "the error does not name RLIMIT_MEMLOCK: %s", error.what());
  }
  // A kept locked buffer of one pool is unlocked when another pool needs the room.
  {
    tarn::locked_buffer_pool other;
    tarn::buffer moved = std::move(const_cast<tarn::buffer&>(first));
    moved.reset();
    TARN_CHECK(keys.stats().kept == 1, "a locked buffer is not kept");
    TARN_CHECK(static_cast<bool>(other.try_get(60000)), "a kept buffer makes another pool's request fail");
  }
  return holds;
}

int no_address_space() {
  char text[256];
  read_start("/proc/self/statm", text, sizeof text);
  const size_t now = strtoul(text, nullptr, 10) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const rlimit limit{now + 300 * mib, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) skip("RLIMIT_AS cannot be set");
  tarn::buffer_pool pool;
  size_t first = 0;
  for (int round = 0; round < 5; ++round) {
    tarn::buffer all[200];
    size_t sum = 0;
    // Each round asks for another length: the address space of kept buffers must serve it too.
    for (tarn::buffer& b : all) {
      b = pool.try_get((static_cast<size_t>(round) * 3 + 2) * mib);
      if (!b) break;
      sum += b.size();
      memset(b.data(), 1, b.size());
    }
    if (round == 0) first = sum;
    measured("round %d: %zu MiB", round, sum / mib);
    // The address space consists of separate reservations of at most 32 MiB, so not all of it fits longer buffers.
    TARN_CHECK(sum >= first / 2, "%zu bytes in round %d, %zu in the first", sum, round, first);
  }
  return holds;
}

}  // namespace

int main() {
  start();
  if (!pools_test::measurable) skip("the sanitizer makes such calls itself");
  expect_good(run_in_child(100, without_locking), "the child with a low RLIMIT_MEMLOCK");
  expect_good(run_in_child(100, no_address_space), "the child with a low RLIMIT_AS");
  expect_good(run_in_child(200, in_child), "the child with failing calls");
}
