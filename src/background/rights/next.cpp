// SPDX-License-Identifier: MIT
#include "background/rights/next.hpp"

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

#include "background/decay.hpp"
#include "engine/instance.hpp"
#include "os/sealed.hpp"

// libc has no header for it.
extern "C" int capset(cap_user_header_t header, cap_user_data_t data) noexcept;

// os/own_library.hpp
extern "C" {
[[gnu::visibility("hidden")]] extern const bool tarn_has_gates;
const bool tarn_has_gates = true;
}

namespace tarn::rights {
namespace {

constexpr std::size_t calls = static_cast<std::size_t>(call::count);

// In the order of `call`, as all tables in this file.
constexpr const char* names[calls] = {"setuid",   "setgid",      "seteuid",   "setegid",   "setreuid",
                                      "setregid", "setresuid",   "setresgid", "setgroups", "initgroups",
                                      "setfsuid", "setfsgid",    "capset",    "prctl",     "unshare",
                                      "setns",    "close_range", "clone",     "_Fork",     "syscall",
#if defined(__x86_64__)
                                      "ioperm",   "iopl",
#endif
                                      "vfork",    "_exit"};

static_assert(names[calls - 1] != nullptr);

struct addresses {
  void* of[calls];
};

constinit os::sealed<addresses> next_functions;

template <class... Functions>
bool come_here(Functions*... own) {
  const char* const* name = names;
  return ((dlsym(RTLD_DEFAULT, *name++) == reinterpret_cast<void*>(own)) && ...);
}

// Whether the program's calls that affect rights reach this library's definitions. They do not if the library was
// opened by dlopen, or another library before it defines one of the names.
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

// Whether the program's calls of vfork reach this library's definition.
bool vfork_comes_here() {
  return dlsym(RTLD_DEFAULT, "vfork") == reinterpret_cast<void*>(vfork) &&
         dlsym(RTLD_DEFAULT, "clone") == reinterpret_cast<void*>(clone);
}

// Looks up the next definitions, and allows background threads if all calls pass through the gates. A process with more
// rights than its user (AT_SECURE) gets no thread, so that its security does not depend on gates.
[[gnu::constructor]] void look_up() {
  addresses found{};
  for (std::size_t i = 0; i < calls; ++i) found.of[i] = dlsym(RTLD_NEXT, names[i]);
  next_functions.seal(found);
  if (getauxval(AT_SECURE) == 0 && all_come_here()) decay::note_rights_are_followed();
  if (vfork_comes_here()) engine::processors.note_vfork_is_followed();
}

}  // namespace

void* next_address(call c) {
  const auto index = static_cast<std::size_t>(c);
  void* const known = next_functions->of[index];
  // The constructor of another library may call a gate before look_up() has run.
  return known != nullptr ? known : dlsym(RTLD_NEXT, names[index]);
}

}  // namespace tarn::rights
