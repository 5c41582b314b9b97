// SPDX-License-Identifier: MIT
// next: the definitions that the gates call: libc's, or those of a library between tarn and libc, such as libfakeroot.
//
// Their addresses are looked up once, when the library is loaded, and lie in read-only memory afterwards.
// Thread safety: any thread; async-signal-safe once this library's constructors have run.
#pragma once

#include <cstddef>

namespace tarn::rights {

enum class call : std::size_t {
  setuid,
  setgid,
  seteuid,
  setegid,
  setreuid,
  setregid,
  setresuid,
  setresgid,
  setgroups,
  initgroups,
  setfsuid,
  setfsgid,
  capset,
  prctl,
  unshare,
  setns,
  close_range,
  clone,
  fork_alone,   // _Fork
  system_call,  // syscall
#if defined(__x86_64__)
  ioperm,
  iopl,
#endif
  // These do not affect rights.
  vfork,
  exit_at_once,  // _exit
  count
};

// The address of the next definition of the call. Null where libc has none.
void* next_address(call c);

template <class Function>
Function* next(call c) {
  return reinterpret_cast<Function*>(next_address(c));
}

}  // namespace tarn::rights
