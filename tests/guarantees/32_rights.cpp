// SPDX-License-Identifier: MIT
// Guarantee 32: when a program without threads of its own has freed memory and then changes its identity, capabilities,
// filters or namespaces, the call does the same as under libc's malloc, and no thread of the allocator has other rights
// afterwards. Each call is made in a process of its own; calls that this user may not make are left out.
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/fsuid.h>
#if defined(__x86_64__)
#include <sys/io.h>
#endif
#include <sys/prctl.h>
#include <unistd.h>

#include "tasks.hpp"

extern "C" int capset(cap_user_header_t header, const cap_user_data_t data);

namespace {

using namespace guarantee;

constexpr unsigned nobody = 65534;

int no_capabilities(bool by_number) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  return by_number ? static_cast<int>(syscall(SYS_capset, &header, data)) : capset(&header, data);
}

// Installs a filter that allows everything.
int allow_all(bool by_number) {
  sock_filter program[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{1, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return by_number ? static_cast<int>(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter))
                   : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

// setfsuid and setfsgid return the previous identity, also if they change nothing.
int file_identity(int (*change_to)(unsigned)) {
  change_to(nobody);
  errno = EPERM;
  return static_cast<unsigned>(change_to(~0U)) == nobody ? 0 : -1;
}

int own_namespace(const char* name, int kind) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/ns/%s", name);
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  return descriptor < 0 ? -1 : setns(descriptor, kind);
}

// Enters the network namespace that a child has made. It differs from that of this process, so a thread that is still
// in the old one is found.
int other_network() {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    const char made = unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
    if (write(ends[1], &made, 1) != 1) _exit(1);
    pause();
  }
  char made = 'n';
  const bool told = read(ends[0], &made, 1) == 1 && made == 'y';
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/ns/net", child);
  const int descriptor = told ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  const int result = descriptor < 0 ? -1 : setns(descriptor, CLONE_NEWNET);
  if (!told) errno = EPERM;
  const int error = errno;
  kill(child, SIGKILL);
  wait_for(child);
  errno = error;
  return result;
}

// close_range(CLOSE_RANGE_UNSHARE) gives the calling thread a descriptor table of its own. A thread that kept the old
// table would keep the pipe's writing end open.
int last_descriptor_is_closed() {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  if (close_range(static_cast<unsigned>(ends[1]), static_cast<unsigned>(ends[1]), CLOSE_RANGE_UNSHARE) != 0)
    return -1;
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  char byte;
  TARN_CHECK(read(ends[0], &byte, 1) == 0,
             "after close_range(CLOSE_RANGE_UNSHARE) a pipe's end is still open");
  return 0;
}

// A thread's access to ports and its core scheduling cookie cannot be read, and not every kernel grants them. What can
// be seen: the allocator's thread that ran before the call has ended.
template <class Call>
int ends_the_thread(Call call) {
  long before = 0;
  for_each_task([&before](long task) {
    if (task != getpid()) before = task;
  });
  call();
  TARN_CHECK(before != 0 && syscall(SYS_tgkill, getpid(), before, 0) != 0,
             "the allocator's thread did not end for the call, or there was none before it");
  return 0;
}

struct change {
  const char* name;
  int (*make)();  // returns 0, or another value with errno set
};

const gid_t one_group[] = {nobody};

constexpr change changes[] = {
    {"setuid", [] { return setuid(nobody); }},
    {"setgid", [] { return setgid(nobody); }},
    {"seteuid", [] { return seteuid(nobody); }},
    {"setegid", [] { return setegid(nobody); }},
    {"setreuid", [] { return setreuid(nobody, nobody); }},
    {"setregid", [] { return setregid(nobody, nobody); }},
    {"setresuid", [] { return setresuid(nobody, nobody, nobody); }},
    {"setresgid", [] { return setresgid(nobody, nobody, nobody); }},
    {"setgroups", [] { return setgroups(1, one_group); }},
    {"initgroups", [] { return initgroups("nobody", nobody); }},
    {"setfsuid", [] { return file_identity(setfsuid); }},
    {"setfsgid", [] { return file_identity(setfsgid); }},
    {"setfsuid by number",
     [] {
       return file_identity([](unsigned user) { return static_cast<int>(syscall(SYS_setfsuid, user)); });
     }},
    {"setuid by number", [] { return static_cast<int>(syscall(SYS_setuid, nobody)); }},
    {"capset", [] { return no_capabilities(false); }},
    {"capset by number", [] { return no_capabilities(true); }},
    {"prctl(PR_SET_NO_NEW_PRIVS)", [] { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }},
    {"prctl(PR_CAPBSET_DROP)", [] { return prctl(PR_CAPBSET_DROP, CAP_SYS_MODULE, 0, 0, 0); }},
    {"prctl(PR_SET_SECUREBITS)", [] { return prctl(PR_SET_SECUREBITS, 1, 0, 0, 0); }},
    {"prctl(PR_SET_SECCOMP)", [] { return allow_all(false); }},
    {"seccomp by number", [] { return allow_all(true); }},
    {"unshare(CLONE_NEWUSER)", [] { return unshare(CLONE_NEWUSER); }},
    {"unshare(CLONE_NEWNS)", [] { return unshare(CLONE_NEWNS); }},
    {"unshare(CLONE_NEWNET) by number", [] { return static_cast<int>(syscall(SYS_unshare, CLONE_NEWNET)); }},
    {"setns(CLONE_NEWNS)", [] { return own_namespace("mnt", CLONE_NEWNS); }},
    {"setns(CLONE_NEWNET)", other_network},
    {"chroot", [] { return chroot("/usr"); }},
    {"close_range(CLOSE_RANGE_UNSHARE)", last_descriptor_is_closed},
    {"prctl(PR_SCHED_CORE)",
     [] { return ends_the_thread([] { prctl(PR_SCHED_CORE, PR_SCHED_CORE_CREATE, 0, 0, 0); }); }},
#if defined(__x86_64__)
    {"ioperm", [] { return ends_the_thread([] { ioperm(0x80, 1, 0); }); }},
    {"iopl", [] { return ends_the_thread([] { iopl(0); }); }},
    {"iopl by number", [] { return ends_the_thread([] { syscall(SYS_iopl, 0); }); }},
#endif
};

const change* find(const char* name) {
  for (const change& c : changes) {
    if (strcmp(c.name, name) == 0) return &c;
  }
  return nullptr;
}

// Makes the call. After it frees memory again, so that the allocator's thread restarts if it may.
int make_one(const change& c) {
  free_megabytes_and_expect_thread();
  errno = 0;
  if (c.make() != 0) {
    // This user may not, or this kernel cannot, as under libc's malloc.
    if (errno == EPERM || errno == ENOSYS || errno == ENOSPC) return not_checkable;
    fail("%s: %s", c.name, strerror(errno));
  }
  expect_one_set_of_rights(c.name);
  free_megabytes();
  expect_one_set_of_rights(c.name);
  return holds;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2) _exit(make_one(*find(arguments[1])));
  start();
  size_t made = 0;
  for (const change& c : changes) {
    const child_result result = run_again(30, c.name);
    if (result.exited && result.code == not_checkable) continue;
    expect_good(result, c.name);
    ++made;
  }
  if (made == 0) skip("this user may make none of the calls");
  measured("%zu of %zu calls, all threads with the same rights after each", made,
           sizeof changes / sizeof *changes);
}
