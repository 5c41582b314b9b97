// SPDX-License-Identifier: MIT
// Guarantee 32: the background thread is still there after a vfork child has given up rights, which are the child's
// alone, and it starts later if the system has refused it once. In both cases the memory that the program frees goes
// back while the program sleeps.
#include <grp.h>
#include <sched.h>
#include <sys/resource.h>

#include "call_filter.hpp"
#include "tasks.hpp"

namespace {

using namespace guarantee;

void expect_returned_asleep(const char* after) {
  const size_t before = rss_bytes();
  free_megabytes(much);
  for (int i = 0; i < 500 && rss_bytes() > before + much / 4; ++i) sleep_ms(10);
  const size_t left = growth(before, rss_bytes());
  TARN_CHECK(left <= much / 4, "%s: %.1f of %.0f MiB left 5 s after they were freed", after, in_mib(left),
             in_mib(much));
}

bool give_up(const char* what) {
  if (strcmp(what, "identity") == 0) return setuid(getuid()) == 0;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  if (strcmp(what, "privileges") == 0) return true;
  sock_filter program[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  return install_filter(program);
}

int after_vfork(const char* what) {
  free_megabytes_and_expect_thread();
  const pid_t child = vfork();
  if (child == 0) {
    if (!give_up(what)) _exit(not_checkable);
    execl("/proc/self/exe", "child", "end", static_cast<char*>(nullptr));
    _exit(not_checkable);
  }
  const child_result result = wait_for(child);
  if (!result.good()) return not_checkable;
  expect_returned_asleep("after a vfork child gave up rights");
  return holds;
}

// This process is process 1 of a namespace, and its child, which shares its memory, is process 1 of another one.
int after_vfork_of_first() {
  if (unshare(CLONE_NEWPID) != 0) return not_checkable;
  const child_result result = run_in_child(30, [] {
    free_megabytes_and_expect_thread();
    alignas(16) static char stack[64 * kib];
    const auto body = [](void*) { return give_up("filter") ? holds : not_checkable; };
    const pid_t child =
        clone(body, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_NEWPID | SIGCHLD, nullptr);
    if (child < 0 || !wait_for(child).good()) return not_checkable;
    expect_returned_asleep("after a child that shares memory gave up rights");
    return holds;
  });
  return result.exited ? result.code : broken;
}

// RLIMIT_NPROC does not hold for root, so root changes its user first.
int after_refusal() {
  constexpr unsigned nobody = 65534;
  if (getuid() == 0 && (setgroups(0, nullptr) != 0 || setgid(nobody) != 0 || setuid(nobody) != 0))
    return not_checkable;
  rlimit limit{};
  getrlimit(RLIMIT_NPROC, &limit);
  const rlimit none{0, limit.rlim_max};
  setrlimit(RLIMIT_NPROC, &none);
  free_megabytes();
  const bool refused = count_tasks() == 1;
  setrlimit(RLIMIT_NPROC, &limit);
  if (!refused) return not_checkable;
  sleep_ms(300);
  expect_returned_asleep("after the system refused a thread once");
  return holds;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2) {
    if (strcmp(arguments[1], "end") == 0) _exit(holds);
    if (strcmp(arguments[1], "first") == 0) _exit(after_vfork_of_first());
    _exit(strcmp(arguments[1], "refusal") == 0 ? after_refusal() : after_vfork(arguments[1]));
  }
  start();
  setenv("TARN_DECAY_MS", "40", 1);
  for (const char* what : {"identity", "privileges", "filter", "first", "refusal"}) {
    const child_result result = run_again(60, what);
    if (!result.exited || result.code != not_checkable) expect_good(result, what);
  }
  measured("memory returned after four vfork children and a refusal");
}
