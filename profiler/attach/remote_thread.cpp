// SPDX-License-Identifier: MIT
#include "profiler/attach/remote_thread.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "profiler/attach/attach_check.hpp"
#include "profiler/attach/interrupted_calls.hpp"
#include "profiler/attach/remote_module.hpp"
#include "profiler/proc/proc_status.hpp"
#include "profiler/proc/process_maps.hpp"

namespace tarn::profiler {

namespace {

constexpr unsigned event_stop = 128;              // PTRACE_EVENT_STOP
constexpr int system_call_stop = SIGTRAP | 0x80;  // PTRACE_O_TRACESYSGOOD
constexpr int rseq_request = 0x420f;              // PTRACE_GET_RSEQ_CONFIGURATION, Linux 5.13
constexpr std::uint64_t red_zone = 128;  // bytes below the stack pointer that a leaf function may use
constexpr std::uint64_t stack_bytes = 256 << 10;
constexpr double poll_seconds = 20e-6;
constexpr double seconds_to_react = 1;  // of a thread that is asked to stop, and for a system call
constexpr double seconds_at_end = 0.3;  // that remain for a call once someone wants this process to end
constexpr double seconds_before_looks = 0.01;
// glibc's setuid() makes each thread change its user by this signal, and holds a lock that dlopen needs until all have.
constexpr int set_user_signal = 33;
constexpr int passing_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, set_user_signal};

std::uint64_t mask_of_calls() {
  std::uint64_t mask = ~std::uint64_t{0};
  for (const int one : passing_signals) mask &= ~(std::uint64_t{1} << (one - 1));
  return mask;
}

// Whether the bytes are of a stack that only the thread uses: of the process's own, or of one that holds the thread's
// control block and has a guard below. What lies below a coroutine's stack may be another's, who writes there meanwhile.
bool is_own_stack(pid_t process, std::uint64_t from, std::uint64_t to, std::uint64_t control_block) {
  std::uint64_t guard_end = 0;
  for (const mapping& one : parse_mappings(proc_text(static_cast<std::uint32_t>(process), "maps"))) {
    if (from >= one.start && to <= one.end) {
      return one.name == "[stack]" ||
             (guard_end == one.start && control_block >= one.start && control_block < one.end);
    }
    if (!one.readable && !one.writable && !one.executable) guard_end = one.end;
  }
  return false;
}

bool is_event(int status) { return static_cast<unsigned>(status) >> 16 == event_stop; }

attach_error no_memory(pid_t process) {
  return {fmt::format("process {} has no memory for the recorder", process),
          "Its limit on address space (ulimit -v) is too low, or a security module forbids memory for code."};
}

}  // namespace

remote_thread::remote_thread(pid_t process, pid_t thread) : process_(process), thread_(thread) {
  if (ptrace(PTRACE_SEIZE, thread, 0, PTRACE_O_TRACESYSGOOD) == 0) {
    seized_ = true;
    return;
  }
  const int error = errno;
  const std::string state = status_line(
      proc_text(static_cast<std::uint32_t>(process), fmt::format("task/{}/status", thread).c_str()), "State");
  if (error == ESRCH || state.empty() || state.starts_with('Z') || state.starts_with('X'))
    throw process_gone(process);  // the kernel refuses one that has ended
  throw refused_by_system(process);
}

// A thread that does not stop in that time is released by the kernel when this process ends.
remote_thread::~remote_thread() {
  const double until = now_seconds() + seconds_to_react;
  while (!let_go() && now_seconds() < until) pause_for(poll_seconds);
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
int remote_thread::next_status() {
  siginfo_t change = {};
  int result = 0;
  do {
    result =
        waitid(P_PID, static_cast<id_t>(thread_), &change, WEXITED | WSTOPPED | WNOWAIT | __WALL | WNOHANG);
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
  const int status = next_status();
  if (status == running || status == ended) return false;
  if (!is_event(status)) {
    // The thread stopped for a signal: deliver it; the requested stop follows.
    ptrace(PTRACE_CONT, thread_, 0, WSTOPSIG(status));
    return false;
  }
  stopping_ = false;
  stopped_ = true;
  return true;
}

int remote_thread::wait_for_stop(double seconds, int how_to_go_on, bool was_asked) {
  const double until = now_seconds() + seconds;
  for (;;) {
    const int status = next_status();
    if (status == ended) throw process_gone(process_);
    if (status == running) {
      if (now_seconds() > until) return running;
      pause_for(poll_seconds);
    } else if (!is_event(status) && WSTOPSIG(status) == set_user_signal) {
      ptrace(static_cast<__ptrace_request>(how_to_go_on), thread_, 0, set_user_signal);
    } else if (is_event(status) && WSTOPSIG(status) != SIGTRAP && !was_asked) {
      was_interrupted_ = true;
      ptrace(static_cast<__ptrace_request>(how_to_go_on), thread_, 0, 0);
    } else {
      return status;
    }
  }
}

bool remote_thread::stop_again(double seconds) {
  if (ptrace(PTRACE_INTERRUPT, thread_, 0, 0) != 0) throw process_gone(process_);
  const double until = now_seconds() + seconds;
  for (;;) {
    const int status = wait_for_stop(std::max(0.0, until - now_seconds()), PTRACE_CONT, true);
    if (status == running) return false;
    if (is_event(status)) return true;
    if (WSTOPSIG(status) != system_call_stop) fail_crashed(status);
    ptrace(PTRACE_CONT, thread_, 0, 0);
  }
}

bool remote_thread::in_restartable_sequence() {
  struct {
    std::uint64_t address;
    std::uint32_t size;
    std::uint32_t signature;
    std::uint32_t flags;
    std::uint32_t padding;
  } sequence = {};
  const long known = ptrace(static_cast<__ptrace_request>(rseq_request), thread_, sizeof sequence, &sequence);
  if (known <= 0 || sequence.address == 0) return false;
  std::uint64_t current = 0;
  constexpr std::uint64_t offset = 8;  // of rseq_cs in struct rseq
  return read_memory(process_, sequence.address + offset, &current, sizeof current) == sizeof current &&
         current != 0;
}

// Until there is memory for calls, the frame lies below what the thread uses of its own stack, as a signal's would. What
// was there is kept: in a coroutine it may be something else's. Without room for it, a system call has no frame.
void remote_thread::cover_own_stack() {
  const std::uint64_t top = stack_pointer(before_.registers) - red_zone;
  covered_address_ = frame_address(after_, top);
  const std::vector<unsigned char> frame = frame_of(after_, covered_address_, code_.sigreturn);
  covered_.resize(frame.size());
  if (is_own_stack(process_, covered_address_, top, control_block(before_.registers)) &&
      read_memory(process_, covered_address_, covered_.data(), covered_.size()) == covered_.size() &&
      write_memory(process_, covered_address_, frame.data(), frame.size())) {
    return;
  }
  covered_address_ = 0;
  covered_.clear();
}

void remote_thread::uncover_own_stack() noexcept {
  if (!covered_.empty()) write_memory(process_, covered_address_, covered_.data(), covered_.size());
  covered_.clear();
}

std::uint64_t remote_thread::system_call(long number, std::initializer_list<std::uint64_t> arguments) {
  register_set set = before_.registers;
  prepare_system_call(set, code_.system_call, number, arguments, covered_address_, code_.sigreturn);
  if (!set_registers(thread_, set)) throw process_gone(process_);
  changed_ = true;
  if (!std::exchange(masked_, true)) {
    const std::uint64_t mask = mask_of_calls();
    ptrace(PTRACE_SETSIGMASK, thread_, sizeof mask, &mask);
  }
  for (int stops = 0; stops < 2;) {  // at its begin, and at its end
    if (ptrace(PTRACE_SYSCALL, thread_, 0, 0) != 0) throw process_gone(process_);
    const int status = wait_for_stop(seconds_to_react, PTRACE_SYSCALL);
    if (status == running) leave_in_call();
    if (is_event(status)) continue;  // a request to stop from before
    if (WSTOPSIG(status) != system_call_stop) fail_crashed(status);
    if (!get_registers(thread_, set)) throw process_gone(process_);
    // Others are those of a signal's handler.
    if (program_counter(set) == code_.system_call + system_call_bytes) ++stops;
  }
  return profiler::result_of(set);
}

void remote_thread::write_return_code() {
  const auto code = return_code();
  for (std::size_t at = 0; at < code.size(); at += sizeof(long)) {
    long word = 0;
    std::memcpy(&word, code.data() + at, std::min(sizeof word, code.size() - at));
    if (ptrace(PTRACE_POKETEXT, thread_, return_ + at, word) != 0) throw no_memory(process_);
  }
}

void remote_thread::begin_calls(const libc_code& code, call_limits limits) {
  code_ = code;
  limits_ = std::move(limits);
  if (!before_.read_from(thread_)) throw process_gone(process_);
  after_ = before_;
  after_.registers = resumed(without_interruption(process_, thread_, before_));
  cover_own_stack();
  const auto map = [this](std::uint64_t bytes, long protection) {
    const std::uint64_t address =
        system_call(SYS_mmap, {0, bytes, static_cast<std::uint64_t>(protection),
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ~std::uint64_t{0}, 0});
    if (address >= ~std::uint64_t{4095}) throw no_memory(process_);
    return address;
  };
  stack_ = map(stack_bytes, PROT_READ | PROT_WRITE);
  return_ = map(static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)), PROT_READ | PROT_EXEC);
  write_return_code();
  frame_ = frame_address(after_, stack_ + stack_bytes);
}

bool remote_thread::keep_errno(std::uint64_t address) {
  if (read_memory(process_, address, &error_, sizeof error_) != sizeof error_) return false;
  error_address_ = address;
  return true;
}

std::uint64_t remote_thread::call(std::uint64_t function, std::initializer_list<std::uint64_t> arguments) {
  std::vector<unsigned char> frame = frame_of(after_, frame_, return_);
  call_words words{.error_address = error_address_, .error = static_cast<std::uint32_t>(error_)};
  std::memcpy(frame.data() + (words_address(frame_) - frame_), &words, sizeof words);
  register_set set = before_.registers;
  prepare_call(set, function, arguments, frame_, return_);
  if (!write_memory(process_, frame_, frame.data(), frame.size()) || !set_registers(thread_, set))
    throw process_gone(process_);
  uncover_own_stack();
  if (ptrace(PTRACE_CONT, thread_, 0, 0) != 0) throw process_gone(process_);
  return result_of_call(now_seconds());
}

std::uint64_t remote_thread::result_of_call(double began) {
  double limit = began + limits_.seconds;
  for (;;) {
    const int status = wait_for_stop(0, PTRACE_CONT);
    if (status != running && is_event(status)) {
      ptrace(PTRACE_CONT, thread_, 0, 0);
    } else if (status != running) {
      fail_crashed(status);
    }
    call_words words;
    if (read_memory(process_, words_address(frame_), &words, sizeof words) == sizeof words &&
        words.is_done != 0) {
      register_set set;
      if (!stop_again(seconds_to_react) || !get_registers(thread_, set)) leave_in_call();
      if (program_counter(set) - return_ < return_code().size()) return words.result;
      // It has gone on by itself, since this process did not run for long.
      changed_ = masked_ = false;
      stack_ = return_ = 0;
      throw attach_error(fmt::format("process {} went on before tarn did", process_),
                         "This system is very busy, or tarn was suspended. Try again.");
    }
    give_up_if_late(began, limit);
    pause_for(poll_seconds);
  }
}

void remote_thread::give_up_if_late(double began, double& limit) {
  const double now = now_seconds();
  if (now - began < seconds_before_looks) return;
  if (limits_.go_on && !limits_.go_on()) limit = std::min(limit, now + seconds_at_end);
  if (now - began > limits_.seconds_for_lock && may_wait_for_lock()) {
    was_interrupted_ = true;
    if (!stop_again(seconds_to_react)) leave_in_call();
    register_set set = {};
    // It may have got the lock meanwhile.
    if (get_registers(thread_, set) && waits_for_lock_at(process_, set, limits_.lock))
      throw call_taken_back();
    ptrace(PTRACE_CONT, thread_, 0, 0);
  }
  if (now > limit) leave_in_call();
}

// A call that waits for the linker's lock has only just begun: that lock is taken before anything else is done. A process
// that has changed its rights keeps the file from its own user.
bool remote_thread::may_wait_for_lock() const {
  if (limits_.lock == 0) return false;
  const std::string text =
      proc_text(static_cast<std::uint32_t>(process_), fmt::format("task/{}/syscall", thread_).c_str());
  return text.empty() || text.starts_with(fmt::format("{} {:#x} ", SYS_futex, limits_.lock));
}

void remote_thread::fail_crashed(int status) {
  register_set set = {};
  get_registers(thread_, set);
  throw attach_error(
      fmt::format("process {}: a function called in it was ended by {} at {:#x}", process_,
                  strsignal(WSTOPSIG(status)), program_counter(set)),
      "The process continues as before. Please report this with the output of: tarn doctor --json");
}

// If the call ends, it leads the thread back to its own work. Its memory stays in the process.
void remote_thread::leave_in_call() {
  const std::int64_t no_wait[2] = {0, 0};
  if (frame_ != 0)
    write_memory(process_, words_address(frame_) + offsetof(call_words, wait), no_wait, sizeof no_wait);
  stack_ = return_ = 0;
  covered_.clear();
  changed_ = masked_ = stopped_ = false;
  if (ptrace(PTRACE_INTERRUPT, thread_, 0, 0) == 0) stopping_ = true;
  throw attach_error(
      fmt::format("a call in process {} has not returned in time; the process was left to itself", process_),
      "The system is very busy, or the call waits for another thread. The thread that makes it goes on once the call "
      "has ended: look whether the process works before you try again.");
}

// False: the thread does not react; the rest happens without this process.
bool remote_thread::ends_calls() noexcept {
  try {
    cover_own_stack();
    if (stack_ != 0) system_call(SYS_munmap, {stack_, stack_bytes});
    if (return_ != 0) system_call(SYS_munmap, {return_, static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))});
    stack_ = return_ = 0;
    // Only at a stop before the return to the program does the kernel look whether a system call is to be restarted.
    if (ptrace(PTRACE_INTERRUPT, thread_, 0, 0) == 0) ptrace(PTRACE_CONT, thread_, 0, 0);
    const int status = wait_for_stop(seconds_to_react, PTRACE_CONT, true);
    return status != running && is_event(status);
  } catch (const attach_error&) {
    return false;
  }
}

void remote_thread::restore() noexcept {
  if (!changed_ || !ends_calls()) return;
  changed_ = false;
  if (error_address_ != 0) write_memory(process_, error_address_, &error_, sizeof error_);
  if (std::exchange(masked_, false)) ptrace(PTRACE_SETSIGMASK, thread_, sizeof before_.mask, &before_.mask);
  set_vectors(thread_, before_);
  register_set set = without_interruption(process_, thread_, before_);
  if (was_interrupted_) set = resumed(set);
  set_registers(thread_, set);
  uncover_own_stack();
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
  if (!std::exchange(seized_, false) || ptrace(PTRACE_DETACH, thread_, 0, 0) == 0 || errno != ESRCH)
    return true;
  // It was killed. Its process does not end for its parent until its tracer has taken its end.
  const double until = now_seconds() + seconds_to_react;
  while (next_status() == running && now_seconds() < until) pause_for(poll_seconds);
  return true;
}

}  // namespace tarn::profiler
