// SPDX-License-Identifier: MIT
// gates: wrappers of the libc functions by which a program changes what its threads may do or share (identities,
// capabilities, seccomp filters, namespaces, ports, the table of descriptors), and of those that copy the process
// without fork handlers. Each ends the engine's background thread first, so that no thread keeps rights that the
// program gives up, and so that the kernel finds a single thread where it requires one. Then it calls the next
// definition of the function.
//
// Not here: chroot, pivot_root, chdir, umask and setsid, which the kernel applies to all threads of the process or
// which threads share (CLONE_FS); posix_spawn, whose child shares memory until it executes another program and does not
// allocate. vfork is here (vfork.cpp), because its child may allocate. In such a child the gates hold no thread: the
// rights that it gives up are its own, and the threads are its parent's.
//
// Thread safety: any thread and any signal handler. errno and results are those of the next definition.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/fsuid.h>
#if defined(__x86_64__)
#include <sys/io.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "background/caretaker.hpp"
#include "background/rights/next.hpp"
#include "engine/engine.hpp"
#include "os/clock.hpp"
#include "os/own_threads/thread.hpp"
#include "os/readable_word.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"
#include "tarn/malloc.h"

using namespace tarn;
using rights::call;
using word = unsigned long;

namespace {

// Introduced by Linux 5.9, 5.13 and 6.8; older headers lack them.
constexpr unsigned close_range_unshare = 1U << 1;
constexpr long landlock_restrict_self = 446;
constexpr long lsm_set_self_attr = 460;

// Holds the engine's background thread, which libc does not know, during a scope: none runs.
class hold {
 public:
  hold() = default;
  ~hold() {
    if (!in_vfork_child_) os::release_background_thread(token_);
  }
  hold(const hold&) = delete;
  hold& operator=(const hold&) = delete;
  [[nodiscard]] bool in_vfork_child() const { return in_vfork_child_; }

 private:
  bool in_vfork_child_ = os::in_vfork_child();
  os::hold_token token_ = in_vfork_child_ ? 0 : os::hold_background_thread();
};

// Holds also the thread of the recyclers, which is one of libc's.
class hold_all {
 public:
  hold_all() {
    if (!in_vfork_child()) caretaker::hold();
  }
  ~hold_all() {
    if (!in_vfork_child()) caretaker::release();
  }
  hold_all(const hold_all&) = delete;
  hold_all& operator=(const hold_all&) = delete;
  [[nodiscard]] bool in_vfork_child() const { return engine_.in_vfork_child(); }

 private:
  hold engine_;
};

// Called before the first thread of the process ends alone: tarn's threads would keep the process alive, and it would
// end with the status of its last thread. There is no release.
void end_threads() {
  if (os::in_vfork_child()) return;
  caretaker::hold();
  os::hold_background_thread();
}

// Calls the next definition; fails with ENOSYS if there is none.
template <class Result, class... Arguments>
Result pass(call c, Arguments... arguments) {
  auto* const next_definition = rights::next<Result(Arguments...)>(c);
  if (next_definition != nullptr) return next_definition(arguments...);
  errno = ENOSYS;
  return static_cast<Result>(-1);
}

// For a call that affects only the calling thread, or requires it to be the only one.
template <class Result, class... Arguments>
Result pass_alone(call c, Arguments... arguments) {
  const hold_all held;
  return pass<Result>(c, arguments...);
}

// For a call that copies the process without fork handlers: the child gets a consistent heap, as from fork. The
// recyclers' thread is not held, as at fork: a signal handler may call _Fork, and must not start a thread of libc
// afterwards.
template <class Result, class... Arguments>
Result pass_copy(call c, Arguments... arguments) {
  const hold held;
  engine::before_copy();
  const auto result = pass<Result>(c, arguments...);
  if (result == 0) {
    engine::after_copy_in_child();
  } else {
    engine::after_copy_in_parent();
  }
  return result;
}

// The child of libc's clone() begins in a function; when that returns, only the child's first thread ends.
struct child_start {
  int (*body)(void*);
  void* argument;
  bool has_whole_heap;
};
int start_child(void* start) {
  const child_start s = *static_cast<const child_start*>(start);
  if (s.has_whole_heap) engine::after_copy_in_child();
  const int status = s.body(s.argument);
  end_threads();
  return status;
}

// For a call that libc carries out in every thread that it knows, such as setuid.
template <class... Arguments>
int pass_identity(call c, Arguments... arguments) {
  const hold held;
  return pass<int>(c, arguments...);
}

// Whether the call has installed a filter. A positive result is the descriptor of a listener, or else the id of a
// thread that could not be synchronised, and no filter.
bool is_installed(long result, call c, long number_or_option, word flags) {
  const bool listens = c == call::system_call && number_or_option == SYS_seccomp &&
                       (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0;
  return result == 0 || (result > 0 && listens);
}

bool begins_strict_mode(call c, long number_or_option, word a, word b) {
  if (c == call::prctl) return a == SECCOMP_MODE_STRICT;
  return number_or_option == SYS_seccomp ? a == SECCOMP_SET_MODE_STRICT : b == SECCOMP_MODE_STRICT;
}

// For a call that installs a seccomp filter, or begins strict mode. New threads inherit it, so tarn starts no thread in this process
// afterwards.
long pass_filter(call c, long number_or_option, word a, word b, word d, word e, word f, word g) {
  const hold_all held;
  const long result = c == call::prctl ? pass<int>(c, static_cast<int>(number_or_option), a, b, d, e)
                                       : pass<long>(c, number_or_option, a, b, d, e, f, g);
  if (!is_installed(result, c, number_or_option, b) || held.in_vfork_child()) return result;
  begins_strict_mode(c, number_or_option, a, b) ? os::note_strict_mode() : os::note_sandbox();
  return result;
}

bool changes_rights(int option) {
  switch (option) {
    case PR_SET_NO_NEW_PRIVS:
    case PR_SET_SECUREBITS:
    case PR_SET_KEEPCAPS:
    case PR_SET_SPECULATION_CTRL:
    case PR_CAPBSET_DROP:
    case PR_CAP_AMBIENT:
    case PR_SCHED_CORE: return true;
    default: return false;
  }
}

// What a system call does, and so how it is passed on: not of interest; pass_alone(); pass_copy(); pass_filter(); the
// end of the first thread.
enum class effect : std::uint8_t { none, alone, copy, filter, end };

// Not `copy` with CLONE_SETTLS, as the child, with a thread pointer of its own, could not release the locks that this
// thread has taken; nor with CLONE_VFORK, as the parent stops and could not release them either.
effect effect_of_clone(word flags) {
  if ((flags & CLONE_VM) != 0) return effect::none;
  return (flags & (CLONE_SETTLS | CLONE_VFORK)) != 0 ? effect::alone : effect::copy;
}

// Called before a call of clone.
void note_shared_memory(word flags) {
  if ((flags & CLONE_VM) != 0 && (flags & CLONE_SETTLS) == 0) engine::before_vfork();
}

// Called before the call: the vDSO must not read the counter afterwards.
effect effect_of_prctl(int option, word value) {
  if (option == PR_SET_TSC && value == PR_TSC_SIGSEGV) os::note_counter_off();
  if (option == PR_SET_SECCOMP) return effect::filter;
  return changes_rights(option) ? effect::alone : effect::none;
}

effect effect_of_clone3(word arguments) {
  // The kernel refuses a bad address.
  const auto address = static_cast<std::uintptr_t>(arguments);
  if (arguments == 0 || os::ask_for_word(address) == os::word_state::unreadable) return effect::none;
  const word flags = *reinterpret_cast<const std::uint64_t*>(arguments);
  note_shared_memory(flags);
  return effect_of_clone(flags);
}

// Whether the calling thread is the process's first one. Not asked in a sandbox, which may forbid it and has no thread
// of tarn.
bool ends_first_thread() {
  return !os::in_sandbox() && os::system_call(SYS_gettid) == os::system_call(SYS_getpid);
}

effect alone_if(bool condition) { return condition ? effect::alone : effect::none; }

// The effect of a call by syscall(), which libcap and libseccomp use.
effect effect_of(long number, word a, word b, word c) {
  switch (number) {
    case SYS_setuid:
    case SYS_setgid:
    case SYS_setreuid:
    case SYS_setregid:
    case SYS_setresuid:
    case SYS_setresgid:
    case SYS_setgroups:
    case SYS_setfsuid:
    case SYS_setfsgid:
    case SYS_capset:
    case SYS_unshare:
    case SYS_setns:
#ifdef SYS_iopl
    case SYS_ioperm:
    case SYS_iopl:
#endif
    case landlock_restrict_self:
    case lsm_set_self_attr: return effect::alone;
#ifdef SYS_fork
    case SYS_fork: return effect::copy;
#endif
    case SYS_clone3: return effect_of_clone3(a);
    case SYS_prctl: return effect_of_prctl(static_cast<int>(a), b);
    case SYS_seccomp:
      return a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER ? effect::filter : effect::none;
    case SYS_keyctl: return alone_if(a == KEYCTL_JOIN_SESSION_KEYRING || a == KEYCTL_SESSION_TO_PARENT);
    case SYS_close_range: return alone_if((c & close_range_unshare) != 0);
    case SYS_clone: note_shared_memory(a); return effect_of_clone(a);
#ifdef SYS_vfork
    case SYS_vfork: engine::before_vfork(); return effect::none;
#endif
    case SYS_exit: return ends_first_thread() ? effect::end : effect::none;
    default: return effect::none;
  }
}

}  // namespace

// libc's headers name the parameters with reserved names.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" {

TARN_API int setuid(uid_t user) noexcept { return pass_identity(call::setuid, user); }
TARN_API int setgid(gid_t group) noexcept { return pass_identity(call::setgid, group); }
TARN_API int seteuid(uid_t user) noexcept { return pass_identity(call::seteuid, user); }
TARN_API int setegid(gid_t group) noexcept { return pass_identity(call::setegid, group); }
TARN_API int setreuid(uid_t real, uid_t effective) noexcept {
  return pass_identity(call::setreuid, real, effective);
}
TARN_API int setregid(gid_t real, gid_t effective) noexcept {
  return pass_identity(call::setregid, real, effective);
}
TARN_API int setresuid(uid_t real, uid_t effective, uid_t saved) noexcept {
  return pass_identity(call::setresuid, real, effective, saved);
}
TARN_API int setresgid(gid_t real, gid_t effective, gid_t saved) noexcept {
  return pass_identity(call::setresgid, real, effective, saved);
}
TARN_API int setgroups(size_t count, const gid_t* groups) noexcept {
  return pass_identity(call::setgroups, count, groups);
}
TARN_API int initgroups(const char* user, gid_t group) {
  return pass_identity(call::initgroups, user, group);
}
TARN_API int setfsuid(uid_t user) noexcept { return pass_alone<int>(call::setfsuid, user); }
TARN_API int setfsgid(gid_t group) noexcept { return pass_alone<int>(call::setfsgid, group); }
TARN_API int capset(cap_user_header_t header, cap_user_data_t data) noexcept {
  return pass_alone<int>(call::capset, header, data);
}
TARN_API int unshare(int flags) noexcept { return pass_alone<int>(call::unshare, flags); }
TARN_API int setns(int descriptor, int kind) noexcept {
  return pass_alone<int>(call::setns, descriptor, kind);
}
TARN_API int close_range(unsigned first, unsigned last, int flags) noexcept {
  const auto kind = static_cast<unsigned>(flags);
  return (kind & close_range_unshare) != 0 ? pass_alone<int>(call::close_range, first, last, flags)
                                           : pass<int>(call::close_range, first, last, flags);
}
#if defined(__x86_64__)
// Access to the processor's ports belongs to each thread.
TARN_API int ioperm(word first, word count, int on) noexcept {
  return pass_alone<int>(call::ioperm, first, count, on);
}
TARN_API int iopl(int level) noexcept { return pass_alone<int>(call::iopl, level); }
#endif
TARN_API pid_t _Fork() noexcept { return pass_copy<pid_t>(call::fork_alone); }

// libc declares these three with an ellipsis. Here they have the largest number of arguments: on both architectures
// variadic arguments are passed in the same registers, and those that the caller did not pass are passed on unread.

TARN_API int tarn_gate_prctl(int option, word a, word b, word c, word d) noexcept __asm__("prctl");
TARN_API int tarn_gate_prctl(int option, word a, word b, word c, word d) noexcept {
  const effect what = effect_of_prctl(option, a);
  if (what == effect::none) return pass<int>(call::prctl, option, a, b, c, d);
  if (what == effect::alone) return pass_alone<int>(call::prctl, option, a, b, c, d);
  return static_cast<int>(pass_filter(call::prctl, option, a, b, c, d, 0, 0));
}

TARN_API int tarn_gate_clone(int (*body)(void*), void* stack, int flags, void* argument, word a, word b,
                             word c) noexcept __asm__("clone");
TARN_API int tarn_gate_clone(int (*body)(void*), void* stack, int flags, void* argument, word a, word b,
                             word c) noexcept {
  const effect what = effect_of_clone(static_cast<word>(flags));
  // libc refuses a call without a function or a stack.
  note_shared_memory(static_cast<word>(flags));
  if (what == effect::none || body == nullptr || stack == nullptr)
    return pass<int>(call::clone, body, stack, flags, argument, a, b, c);
  child_start start{body, argument, what == effect::copy};
  auto* const given = static_cast<void*>(&start);
  return start.has_whole_heap ? pass_copy<int>(call::clone, start_child, stack, flags, given, a, b, c)
                              : pass_alone<int>(call::clone, start_child, stack, flags, given, a, b, c);
}

TARN_API long tarn_gate_syscall(long number, word a, word b, word c, word d, word e, word f) noexcept
    __asm__("syscall");
TARN_API long tarn_gate_syscall(long number, word a, word b, word c, word d, word e, word f) noexcept {
  const effect what = effect_of(number, a, b, c);
  if (what == effect::end) end_threads();
  if (what == effect::none || what == effect::end)
    return pass<long>(call::system_call, number, a, b, c, d, e, f);
  if (what == effect::alone) return pass_alone<long>(call::system_call, number, a, b, c, d, e, f);
  if (what == effect::copy) return pass_copy<long>(call::system_call, number, a, b, c, d, e, f);
  return pass_filter(call::system_call, number, a, b, c, d, e, f);
}

}  // extern "C"
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
