// SPDX-License-Identifier: MIT
// Guarantee 32: a program may change its user by libc's own function, which tarn's gates do not see, for example found
// by dlsym in a handle of libc as Python's ctypes does. After two periods (half a decay time each) no thread of the
// allocator has the old user.
#include <dlfcn.h>

#include "tasks.hpp"

namespace {

using namespace guarantee;

constexpr unsigned nobody = 65534;

int change_user_past_gates() {
  void* const libc = dlopen("libc.so.6", RTLD_NOW);
  if (libc == nullptr) return not_checkable;
  auto* const change = reinterpret_cast<int (*)(uid_t, uid_t, uid_t)>(dlsym(libc, "setresuid"));
  free_megabytes_and_expect_thread();
  if (change == nullptr || change(nobody, nobody, nobody) != 0) return not_checkable;
  sleep_ms(1000);  // two periods; the background thread has work for more
  expect_one_set_of_rights("setresuid from a handle of libc");
  free_megabytes();
  expect_one_set_of_rights("setresuid from a handle of libc");
  return holds;
}

}  // namespace

int main(int count, char**) {
  if (count == 2) _exit(change_user_past_gates());
  start();
  setenv("TARN_DECAY_MS", "1000", 1);
  const child_result result = run_again(30, "change");
  if (result.exited && result.code == not_checkable) skip("this user may not change to another one");
  expect_good(result, "setresuid from a handle of libc");
  measured("one set of rights within two periods");
}
