// SPDX-License-Identifier: MIT
// Guarantee 22: mmap, mremap, munmap, madvise and mprotect may fail at any moment. A tracer makes the n-th such call of
// a workload fail, and in other runs the n-th and all after it, with n rising until a run has no failure. A quick run
// leaves out some n.
// How: the workload is this program, executed again. A seccomp filter stops it at these calls; the tracer skips the
// call and sets its result to -ENOMEM. So the unmodified library is tested, whether it calls libc or the kernel
// directly. Calls by the program loader do not fail, because the loader may give up when it gets no memory.
// Invariant: after the marker call no call fails any more, and then no request may be refused.
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "call_filter.hpp"
#include "failure_workload.hpp"

namespace {

using namespace guarantee;

// getpriority with marker_argument means "from here on all calls succeed", with marker_argument + 1 "main begins".
constexpr long marker_call = SYS_getpriority;
constexpr unsigned long marker_argument = 0x7461726e;
constexpr long traced_calls[] = {SYS_mmap, SYS_mremap, SYS_munmap, SYS_madvise, SYS_mprotect, marker_call};
constexpr int refused_by_loader = 127;

// ---- the traced side ----

void ask_for_stops() {
  constexpr size_t calls = sizeof traced_calls / sizeof *traced_calls;
  sock_filter program[calls + 3];
  program[0] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (size_t i = 0; i < calls; ++i) {
    program[i + 1] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(traced_calls[i]),
                              static_cast<unsigned char>(calls - i), 0);
  }
  program[calls + 1] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  program[calls + 2] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  if (!install_filter(program)) skip("no seccomp filter: %s", strerror(errno));
}

int workload() {
  run_with_threads(refusals::accepted, 2, 1);
  syscall(marker_call, marker_argument, 0);
  run_with_threads(refusals::forbidden, 2, 1);
  return holds;
}

// ---- registers ----

struct stopped_call {
  long number;
  unsigned long first_argument;
  unsigned long instruction;
};

#if defined(__x86_64__)
stopped_call read_call(pid_t thread) {
  user_regs_struct all{};
  ptrace(PTRACE_GETREGS, thread, nullptr, &all);
  return {static_cast<long>(all.orig_rax), static_cast<unsigned long>(all.rdi),
          static_cast<unsigned long>(all.rip)};
}
void refuse_call(pid_t thread) {
  user_regs_struct all{};
  ptrace(PTRACE_GETREGS, thread, nullptr, &all);
  all.orig_rax = static_cast<decltype(all.orig_rax)>(-1);
  all.rax = static_cast<decltype(all.rax)>(-ENOMEM);
  ptrace(PTRACE_SETREGS, thread, nullptr, &all);
}
#elif defined(__aarch64__)
stopped_call read_call(pid_t thread) {
  user_regs_struct all{};
  iovec part{&all, sizeof all};
  ptrace(PTRACE_GETREGSET, thread, reinterpret_cast<void*>(NT_PRSTATUS), &part);
  return {static_cast<long>(all.regs[8]), static_cast<unsigned long>(all.regs[0]),
          static_cast<unsigned long>(all.pc)};
}
void refuse_call(pid_t thread) {
  int number = -1;
  iovec call{&number, sizeof number};
  ptrace(PTRACE_SETREGSET, thread, reinterpret_cast<void*>(NT_ARM_SYSTEM_CALL), &call);
  user_regs_struct all{};
  iovec part{&all, sizeof all};
  ptrace(PTRACE_GETREGSET, thread, reinterpret_cast<void*>(NT_PRSTATUS), &part);
  all.regs[0] = static_cast<unsigned long>(-ENOMEM);
  ptrace(PTRACE_SETREGSET, thread, reinterpret_cast<void*>(NT_PRSTATUS), &part);
}
#else
#error "unknown processor: add how its system calls are read and refused"
#endif

// ---- the tracer ----

struct injection {
  size_t first;     // number of the first call that fails, from 1
  bool sustained;   // all calls after it fail as well
  bool from_start;  // calls are counted from the start of the process, not from main
  const char* name() const { return sustained ? "all from call" : "call"; }
};

struct outcome {
  size_t calls;  // counted until the marker
  size_t failed;
  int status;
  bool hung;
};

// The addresses of the program loader's code in a child; the loader's own calls are not the allocator's.
struct address_range {
  unsigned long begin;
  unsigned long end;
  bool contains(unsigned long at) const { return begin <= at && at < end; }
};

address_range loader_code(pid_t child) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/maps", child);
  FILE* const maps = fopen(path, "re");
  if (maps == nullptr) skip("%s cannot be read", path);
  address_range range{0, 0};
  char line[600];
  while (fgets(line, sizeof line, maps) != nullptr) {
    if (strstr(line, "/ld-linux") == nullptr && strstr(line, "/ld-2") == nullptr) continue;
    unsigned long begin = 0;
    unsigned long end = 0;
    if (sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
    if (range.begin == 0) range.begin = begin;
    range.end = end;
  }
  fclose(maps);
  return range;
}

class tracer {
 public:
  explicit tracer(const injection& what) : what_(what), counting_(what.from_start) {}

  outcome run() {
    child_ = fork();
    if (child_ < 0) skip("fork failed");
    if (child_ == 0) start_workload();
    int status = 0;
    if (waitpid(child_, &status, 0) != child_ || !WIFSTOPPED(status)) skip("the child cannot be traced");
    const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, child_, nullptr, options) != 0) skip("ptrace: %s", strerror(errno));
    ptrace(PTRACE_CONT, child_, nullptr, nullptr);
    follow();
    return result_;
  }

 private:
  static constexpr unsigned seconds_allowed = 20;

  [[noreturn]] void start_workload() const {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(not_checkable);
    raise(SIGSTOP);
    ask_for_stops();
    execl("/proc/self/exe", "22_failing_system_calls", "workload", static_cast<char*>(nullptr));
    _exit(refused_by_loader);
  }

  // Follows the workload until it ends. SIGALRM, caught without SA_RESTART, interrupts the wait for a workload that
  // hangs.
  void follow() {
    struct sigaction on_alarm {};
    on_alarm.sa_handler = [](int) {};
    sigaction(SIGALRM, &on_alarm, nullptr);
    alarm(seconds_allowed * slowness());
    for (;;) {
      int status = 0;
      const pid_t thread = waitpid(-1, &status, __WALL);
      if (thread < 0 && errno == EINTR) return give_up();
      if (thread < 0) return;
      if (WIFSTOPPED(status)) {
        resume(thread, status);
      } else if (thread == child_) {
        alarm(0);
        result_.status = status;
        return;
      }
    }
  }

  void give_up() {
    result_.hung = true;
    kill(child_, SIGKILL);
    int status = 0;
    while (waitpid(-1, &status, __WALL) > 0) {
    }
  }

  void resume(pid_t thread, int status) {
    const int event = status >> 16;
    int signal = WSTOPSIG(status);
    if (event == PTRACE_EVENT_SECCOMP) at_call(thread);
    if (event == PTRACE_EVENT_EXEC) loader_ = {0, 0}, executed_ = true;
    if (event != 0 || signal == SIGSTOP) signal = 0;
    ptrace(PTRACE_CONT, thread, nullptr, static_cast<long>(signal));
  }

  void at_call(pid_t thread) {
    if (!executed_) return;
    const stopped_call call = read_call(thread);
    if (call.number == marker_call) {
      if (call.first_argument == marker_argument) ended_ = true;
      if (call.first_argument == marker_argument + 1) counting_ = true;
      return;
    }
    if (!counting_ || ended_) return;
    if (loader_.begin == 0) loader_ = loader_code(child_);
    if (loader_.contains(call.instruction)) return;
    ++result_.calls;
    if (result_.calls == what_.first || (what_.sustained && result_.calls > what_.first)) {
      refuse_call(thread);
      ++result_.failed;
    }
  }

  injection what_;
  pid_t child_ = -1;
  address_range loader_{0, 0};
  bool executed_ = false;
  bool counting_;
  bool ended_ = false;
  outcome result_{0, 0, 0, false};
};

// A process that cannot start for lack of memory may report that and exit. It may not crash or hang.
void judge(const injection& what, const outcome& got) {
  TARN_CHECK(!got.hung, "%s %zu failing: hangs", what.name(), what.first);
  TARN_CHECK(WIFEXITED(got.status), "%s %zu failing: killed by signal %d (%s)", what.name(), what.first,
             WTERMSIG(got.status), strsignal(WTERMSIG(got.status)));
  if (WEXITSTATUS(got.status) == not_checkable) _exit(not_checkable);
  if (what.from_start && WEXITSTATUS(got.status) == refused_by_loader) return;
  TARN_CHECK(WEXITSTATUS(got.status) == holds, "%s %zu failing: see the line above (exit status %d)",
             what.name(), what.first, WEXITSTATUS(got.status));
}

// Runs the workload for n = 1, 2, ... until nothing fails. A quick run takes growing steps above `dense`: the workload
// makes about 120 calls at a dozen places of the engine, and each run takes a quarter of a second.
void every_n(bool sustained, bool from_start, size_t dense) {
  size_t runs = 0;
  for (size_t n = 1;; ++runs) {
    const injection what{n, sustained, from_start};
    const outcome got = tracer(what).run();
    judge(what, got);
    if (got.failed == 0) {
      TARN_CHECK(n > 1, "no call of the workload was seen: nothing was tested");
      measured("%s, %s: %zu runs, %zu calls, no harm done",
               sustained ? "all calls from the n-th" : "n-th call",
               from_start ? "from the start" : "from main", runs, got.calls);
      return;
    }
    const bool hurry = !long_run() && n > dense;
    n += hurry ? 1 + n / 8 : 1;
  }
}

}  // namespace

int main(int count, char**) {
  start();
  if (count == 2) {
    syscall(marker_call, marker_argument + 1, 0);
    return workload();
  }
  every_n(false, false, 30);
  every_n(true, false, 15);
  every_n(false, true, 15);
}
