// SPDX-License-Identifier: MIT
#include "gates/next.hpp"

#include <dlfcn.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/fsuid.h>
#if defined(__x86_64__)
#include <sys/io.h>
#endif
#include <sys/prctl.h>
#include <unistd.h>

#include "os/sealed.hpp"
#include "runtime/decay.hpp"

// libc has no header for it.
extern "C" int capset(cap_user_header_t header, cap_user_data_t data) noexcept;

namespace tarn::gates {
namespace {

constexpr std::size_t calls = static_cast<std::size_t>(call::count);

// In the order of `call`, as all tables here.
constexpr const char* names[calls] = {"setuid",   "setgid",      "seteuid",   "setegid",   "setreuid",
                                      "setregid", "setresuid",   "setresgid", "setgroups", "initgroups",
                                      "setfsuid", "setfsgid",    "capset",    "prctl",     "unshare",
                                      "setns",    "close_range", "clone",     "_Fork",     "syscall",
#if defined(__x86_64__)
                                      "ioperm",   "iopl"
#endif
};

struct addresses {
  void* of[calls];
};

constinit os::sealed<addresses> behind;

template <class... Functions>
bool come_here(Functions*... own) {
  const char* const* name = names;
  return ((dlsym(RTLD_DEFAULT, *name++) == reinterpret_cast<void*>(own)) && ...);
}

// Whether the program's calls come to this library: not if it was opened by dlopen, or another library defines one of the
// names in front of it.
bool all_come_here() {
  return come_here(setuid, setgid, seteuid, setegid, setreuid, setregid, setresuid, setresgid, setgroups,
                   initgroups, setfsuid, setfsgid, capset, prctl, unshare, setns, close_range, clone, _Fork,
                   syscall
#if defined(__x86_64__)
                   ,
                   ioperm, iopl
#endif
  );
}

// A process with more rights than its user gets no thread: nothing there shall depend on gates.
[[gnu::constructor]] void look_up() {
  addresses found{};
  for (std::size_t i = 0; i < calls; ++i) found.of[i] = dlsym(RTLD_NEXT, names[i]);
  behind.seal(found);
  if (getauxval(AT_SECURE) == 0 && all_come_here()) decay::note_rights_are_followed();
}

}  // namespace

void* next_address(call c) {
  const auto index = static_cast<std::size_t>(c);
  void* const known = behind->of[index];
  // Another library's constructor may come here before ours has run.
  return known != nullptr ? known : dlsym(RTLD_NEXT, names[index]);
}

}  // namespace tarn::gates
