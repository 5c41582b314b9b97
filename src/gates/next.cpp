// SPDX-License-Identifier: MIT
#include "gates/next.hpp"

#include <dlfcn.h>
#include <sys/auxv.h>

#include "os/sealed.hpp"
#include "runtime/decay.hpp"

namespace tarn::gates {
namespace {

constexpr std::size_t calls = static_cast<std::size_t>(call::count);

constexpr const char* names[calls] = {"setuid",   "setgid",    "seteuid",   "setegid",   "setreuid",
                                      "setregid", "setresuid", "setresgid", "setgroups", "initgroups",
                                      "capset",   "prctl",     "unshare",   "setns",     "close_range",
                                      "clone",    "_Fork",     "syscall"};

struct addresses {
  void* of[calls];
};

constinit os::sealed<addresses> behind;

// Whether the program's calls come to this library: not if it was opened by dlopen, or another library defines the name in
// front of it.
bool is_ours(const char* name) {
  Dl_info defining{};
  Dl_info own{};
  void* const found = dlsym(RTLD_DEFAULT, name);
  return found != nullptr && dladdr(found, &defining) != 0 && dladdr(&behind, &own) != 0 &&
         defining.dli_fbase == own.dli_fbase;
}

// A process with more rights than its user gets no thread: nothing there shall depend on gates.
[[gnu::constructor]] void look_up() {
  addresses found{};
  bool all_are_ours = getauxval(AT_SECURE) == 0;
  for (std::size_t i = 0; i < calls; ++i) {
    found.of[i] = dlsym(RTLD_NEXT, names[i]);
    all_are_ours = all_are_ours && is_ours(names[i]);
  }
  behind.seal(found);
  if (all_are_ours) decay::note_rights_are_followed();
}

}  // namespace

void* next_address(call c) {
  const auto index = static_cast<std::size_t>(c);
  void* const known = behind->of[index];
  // Another library's constructor may come here before ours has run.
  return known != nullptr ? known : dlsym(RTLD_NEXT, names[index]);
}

}  // namespace tarn::gates
