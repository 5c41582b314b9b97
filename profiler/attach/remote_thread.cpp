// SPDX-License-Identifier: MIT
#include "profiler/attach/remote_thread.hpp"

#include <elf.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "profiler/attach/attach_check.hpp"
#include "profiler/attach/moments.hpp"
#include "profiler/attach/remote_module.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::profiler {

namespace {

constexpr unsigned event_stop = 128;      // PTRACE_EVENT_STOP
constexpr int rseq_request = 0x420f;      // PTRACE_GET_RSEQ_CONFIGURATION, Linux 5.13
constexpr std::uint64_t red_zone = 128;   // bytes below the stack pointer that a leaf function may use
constexpr std::uint64_t no_function = 0;  // return address of a call: the thread stops there with SIGSEGV
constexpr double poll_seconds = 20e-6;

#if defined(__x86_64__)
using register_set = user_regs_struct;
constexpr int vector_sets[] = {NT_X86_XSTATE};
std::uint64_t program_counter(const register_set& set) { return set.rip; }
std::uint64_t result_of(const register_set& set) { return set.rax; }
#elif defined(__aarch64__)
using register_set = user_pt_regs;
constexpr int vector_sets[] = {NT_PRFPREG, NT_ARM_SVE};
std::uint64_t program_counter(const register_set& set) { return set.pc; }
std::uint64_t result_of(const register_set& set) { return set.regs[0]; }
#endif

bool get_set(pid_t thread, int which, void* into, std::size_t& bytes) {
  iovec room = {into, bytes};
  if (ptrace(PTRACE_GETREGSET, thread, which, &room) != 0) return false;
  bytes = room.iov_len;
  return true;
}
bool set_set(pid_t thread, int which, const void* from, std::size_t bytes) {
  iovec room = {const_cast<void*>(from), bytes};
  return ptrace(PTRACE_SETREGSET, thread, which, &room) == 0;
}

// Sets the registers for a call. False: the return address could not be written.
bool prepare_call(pid_t process, register_set& set, std::uint64_t function,
                  std::initializer_list<std::uint64_t> arguments, std::uint64_t stack) {
  std::size_t index = 0;
#if defined(__x86_64__)
  unsigned long long* const places[] = {&set.rdi, &set.rsi, &set.rdx, &set.rcx, &set.r8, &set.r9};
  for (const std::uint64_t one : arguments) *places[index++] = one;
  const std::uint64_t top = stack != 0 ? stack : set.rsp - red_zone;
  set.rsp = (top & ~std::uint64_t{15}) - 8;
  set.rip = function;
  set.rax = 0;
  set.orig_rax = ~0ULL;     // so that the kernel restarts no system call
  set.eflags &= ~0x400ULL;  // the direction flag, which functions expect to be clear
  return write_memory(process, set.rsp, &no_function, sizeof no_function);
#elif defined(__aarch64__)
  static_cast<void>(process);
  for (const std::uint64_t one : arguments) set.regs[index++] = one;
  const std::uint64_t top = stack != 0 ? stack : set.sp - red_zone;
  set.sp = top & ~std::uint64_t{15};
  set.pc = function;
  set.regs[30] = no_function;
  return true;
#endif
}

#if defined(__aarch64__)
constexpr int system_call_set = NT_ARM_SYSTEM_CALL;
#endif

}  // namespace

struct remote_thread::state {
  register_set registers = {};
  std::vector<std::pair<int, std::vector<unsigned char>>> vectors;
  std::uint64_t mask = 0;
};

remote_thread::remote_thread(pid_t process, pid_t thread) : process_(process), thread_(thread) {
  if (ptrace(PTRACE_SEIZE, thread, 0, 0) == 0) {
    seized_ = true;
    return;
  }
  if (errno == ESRCH) throw process_gone(process);
  throw refused_by_system(process, yama_scope());
}

remote_thread::~remote_thread() {
  while (!let_go()) pause_for(poll_seconds);
}

bool remote_thread::stop(double seconds) {
  const double until = now_seconds() + seconds;
  begin_ = now_seconds();
  if (ptrace(PTRACE_INTERRUPT, thread_, 0, 0) != 0) throw process_gone(process_);
  stopping_ = true;
  while (!look_for_stop()) {
    if (!seized_) throw process_gone(process_);
    if (now_seconds() > until) return false;
    pause_for(poll_seconds);
  }
  return true;
}

// Consumes the exit status of an ended thread as its tracer, so that its parent is notified; also if this process
// is the parent.
int remote_thread::next_status(int flags) {
  siginfo_t change = {};
  int result = 0;
  do {
    result =
        waitid(P_PID, static_cast<id_t>(thread_), &change, WEXITED | WSTOPPED | WNOWAIT | __WALL | flags);
  } while (result != 0 && errno == EINTR);
  if (result == 0 && change.si_pid == 0) return running;
  const bool has_ended = result != 0 || change.si_code == CLD_EXITED || change.si_code == CLD_KILLED ||
                         change.si_code == CLD_DUMPED;
  int status = 0;
  if (!has_ended && waitpid(thread_, &status, __WALL) == thread_ && WIFSTOPPED(status)) return status;
  const bool is_own_child =
      thread_ == process_ && status_line(proc_text(static_cast<std::uint32_t>(process_), "status"), "PPid") ==
                                 std::to_string(getpid());
  if (!is_own_child) waitpid(thread_, &status, __WALL | WNOHANG);
  seized_ = stopping_ = stopped_ = changed_ = false;
  return ended;
}

bool remote_thread::look_for_stop() {
  const int status = next_status(WNOHANG);
  if (status == running || status == ended) return false;
  if (static_cast<unsigned>(status) >> 16 != event_stop) {
    // The thread stopped for a signal: deliver it; the requested stop follows.
    ptrace(PTRACE_CONT, thread_, 0, WSTOPSIG(status));
    return false;
  }
  stopping_ = false;
  stopped_ = true;
  return true;
}

bool remote_thread::in_restartable_sequence() {
  struct {
    std::uint64_t place;
    std::uint32_t size;
    std::uint32_t signature;
    std::uint32_t flags;
    std::uint32_t padding;
  } sequence = {};
  const long known = ptrace(static_cast<__ptrace_request>(rseq_request), thread_, sizeof sequence, &sequence);
  if (known <= 0 || sequence.place == 0) return false;
  std::uint64_t current = 0;
  constexpr std::uint64_t offset = 8;  // of rseq_cs in struct rseq
  return read_memory(process_, sequence.place + offset, &current, sizeof current) == sizeof current &&
         current != 0;
}

void remote_thread::save() {
  saved_ = std::make_unique<state>();
  std::size_t bytes = sizeof saved_->registers;
  if (!get_set(thread_, NT_PRSTATUS, &saved_->registers, bytes) ||
      ptrace(PTRACE_GETSIGMASK, thread_, sizeof saved_->mask, &saved_->mask) != 0) {
    throw process_gone(process_);
  }
  for (const int which : vector_sets) {
    std::vector<unsigned char> room(std::size_t{64} << 10);
    bytes = room.size();
    if (!get_set(thread_, which, room.data(), bytes)) continue;
    room.resize(bytes);
    saved_->vectors.emplace_back(which, std::move(room));
  }
  // Blocks all signals except the SIGSEGV by which a call ends.
  const std::uint64_t mask = ~(std::uint64_t{1} << (SIGSEGV - 1));
  ptrace(PTRACE_SETSIGMASK, thread_, sizeof mask, &mask);
  changed_ = true;
}

void remote_thread::restore() noexcept {
  if (!std::exchange(changed_, false)) return;
  for (const auto& [which, content] : saved_->vectors)
    set_set(thread_, which, content.data(), content.size());
  set_set(thread_, NT_PRSTATUS, &saved_->registers, sizeof saved_->registers);
  ptrace(PTRACE_SETSIGMASK, thread_, sizeof saved_->mask, &saved_->mask);
}

int remote_thread::wait_for_stop() {
  for (;;) {
    const int status = next_status(0);
    if (status == ended) throw process_gone(process_);
    if (static_cast<unsigned>(status) >> 16 != event_stop) return status;
    // A group stop of the whole process: it waits until the call is over.
    ptrace(PTRACE_CONT, thread_, 0, 0);
  }
}

std::uint64_t remote_thread::call(std::uint64_t function, std::initializer_list<std::uint64_t> arguments,
                                  std::uint64_t stack) {
  if (!changed_) save();
  register_set set = saved_->registers;
  if (!prepare_call(process_, set, function, arguments, stack) ||
      !set_set(thread_, NT_PRSTATUS, &set, sizeof set)) {
    throw attach_error(fmt::format("process {}: the registers of thread {} cannot be set", process_, thread_),
                       "What this system allows: tarn doctor");
  }
#if defined(__aarch64__)
  const int none = -1;
  set_set(thread_, system_call_set, &none, sizeof none);
#endif
  if (ptrace(PTRACE_CONT, thread_, 0, 0) != 0) throw process_gone(process_);
  const int status = wait_for_stop();
  std::size_t bytes = sizeof set;
  if (!get_set(thread_, NT_PRSTATUS, &set, bytes)) throw process_gone(process_);
  if (WSTOPSIG(status) != SIGSEGV || program_counter(set) != no_function) {
    throw attach_error(
        fmt::format("process {}: a function called in it was ended by {} at {:#x}", process_,
                    strsignal(WSTOPSIG(status)), program_counter(set)),
        "The process continues as before. Please report this with the output of: tarn doctor --json");
  }
  return result_of(set);
}

bool remote_thread::let_go() {
  if (stopping_) {
    look_for_stop();
    if (stopping_) return false;
    begin_ = now_seconds();
  }
  if (stopped_) {
    restore();
    stopped_seconds_ = now_seconds() - begin_;
    stopped_ = false;
  }
  if (std::exchange(seized_, false)) ptrace(PTRACE_DETACH, thread_, 0, 0);
  return true;
}

}  // namespace tarn::profiler
