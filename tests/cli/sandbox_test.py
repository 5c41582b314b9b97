# SPDX-License-Identifier: MIT
"""End-to-end: a recorded program that installs a seccomp filter ends as it does without tarn. The filter kills
the process at any system call that the program alone does not make, so also at one of the recorder's."""
import os
import subprocess

from harness import settings
from profile_test import ProfileBase

PROGRAM = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// The system calls of malloc and of the end of a process; and those of libc's threads.
static const int of_malloc[] = {SYS_mmap, SYS_munmap, SYS_mremap, SYS_brk, SYS_write, SYS_exit_group, SYS_madvise};
static const int of_threads[] = {SYS_clone3, SYS_clone, SYS_mprotect, SYS_futex, SYS_exit, SYS_set_robust_list, SYS_rseq,
                                 SYS_rt_sigprocmask, SYS_rt_sigaction};

static void close_sandbox(bool by_prctl, bool threads) {
  struct sock_filter program[64];
  unsigned n = 0;
  program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  auto allow = [&](int call) {
    program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1);
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  };
  for (int call : of_malloc) allow(call);
  if (threads) for (int call : of_threads) allow(call);
  program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  struct sock_fprog filter = {(unsigned short)n, program};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const long result = by_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)
                               : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
  if (result != 0) _exit(77);
}

[[gnu::noinline]] void inside_the_sandbox(long small) {
  for (long i = 0; i < small; ++i) {
    char* volatile block = (char*)malloc(100);
    block[0] = 1;
    free(block);
  }
  for (int i = 0; i < 200; ++i) {  // outside of a sandbox the recorder asks how much of a large block is resident
    char* volatile block = (char*)malloc(8 << 20);
    memset(block, 1, 1 << 16);
    free(block);
  }
}

static void* thread(void* small) {
  inside_the_sandbox((long)small);
  return nullptr;
}

int main(int, char** words) {
  const bool threads = strcmp(words[2], "threads") == 0;
  const long small = atol(words[3]);
  free(malloc(1));  // libc's first malloc asks the kernel for random bytes
  if (strcmp(words[2], "refused") == 0) {  // the kernel refuses both filters
    if (prctl(PR_SET_SECCOMP, 12345) == 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, nullptr) == 0) return 9;
  } else if (strcmp(words[2], "vfork") == 0) {
    if (vfork() == 0) {
      close_sandbox(strcmp(words[1], "prctl") == 0, false);
      _exit(0);
    }
  } else {
    close_sandbox(strcmp(words[1], "prctl") == 0, threads);
  }
  inside_the_sandbox(small);
  if (threads) {
    pthread_t ids[3];
    for (auto& id : ids) if (pthread_create(&id, nullptr, thread, (void*)small) != 0) return 5;
    for (auto& id : ids) pthread_join(id, nullptr);
  }
  if (write(1, "whole\n", 6) != 6) return 6;
  if (threads) return 3;
  _exit(3);
}
"""

STRICT = r"""
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void* blocks[200];
static void* large;

static void use(long count) {
  for (long i = 0; i < count; ++i) {
    free(blocks[i % 200]);
    blocks[i % 200] = malloc(1 + i % 700);
  }
}

[[gnu::noinline]] void before() {
  for (int i = 0; i < 1000; ++i) {
    free(large);
    large = malloc(i % 100 == 0 ? 100000 : 100);
  }
}

static void* thread(void*) {
  use(100000);
  return nullptr;
}

int main(int, char** words) {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);  // room for large blocks in memory that malloc has
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  free(malloc(1 << 20));
  use(100000);
  before();
  const bool counter = strcmp(words[1], "counter") == 0;
  if (prctl(PR_SET_SECCOMP, 12345) == 0 || prctl(PR_SET_TSC, 12345) == 0) return 9;
  if ((counter ? prctl(PR_SET_TSC, PR_TSC_SIGSEGV)
               : strcmp(words[1], "prctl") == 0 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)
                                                : syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, nullptr)) != 0) {
    return 77;
  }
  use(100000);
  void* volatile block = malloc(100000);
  free(block);
  if (counter) {
    pthread_t id;
    if (pthread_create(&id, nullptr, thread, nullptr) != 0) return 5;
    pthread_join(id, nullptr);
    const pid_t child = fork();
    if (child == 0) {
      use(100000);
      _exit(0);
    }
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) return 4;
  }
  if (write(1, "whole\n", 6) != 6) return 6;
  syscall(SYS_exit, 3);
}
"""


class sandbox(ProfileBase):
    def record(self, program, mode, *words):
        path = self.path("x.prof")
        result = self.execute(settings.tarn, "profile", "--mode", mode, "-o", path, "--", program, *words)
        with self.subTest(mode=mode, words=words):
            self.assertEqual((result.returncode, result.stdout), (3, "whole\n"), result.stderr)
        return path

    def test_the_recorder_makes_no_system_calls_in_a_sandbox(self):
        program = self.compile("closes", PROGRAM, "-pthread", "-O1", "-fno-builtin")
        alone = subprocess.run([program, "prctl", "alone", "10"], check=False, stdout=subprocess.DEVNULL)
        if alone.returncode == 77:
            self.skipTest("this system lets no process close a sandbox")
        for mode in ("sample", "full"):
            for way, kind in (("prctl", "alone"), ("syscall", "threads")):
                path = self.record(program, mode, way, kind, "100000")
        # The last recording is in mode full: it has all allocations of the four threads in the sandbox.
        self.assertEqual(self.figures(self.dump(path), "inside_the_sandbox")["allocations"], 4 * 100200)

    def test_the_recording_ends_in_strict_mode_and_without_the_counter(self):
        program = self.compile("strict", STRICT, "-pthread", "-O1", "-fno-builtin")
        for way in ("prctl", "syscall", "counter"):
            if subprocess.run([program, way], check=False, stdout=subprocess.DEVNULL).returncode == 77:
                continue  # this system, or this processor, does not have it
            for mode in ("sample", "full"):
                path = self.record(program, mode, way)
                known = self.dump(path)
                why = [one for one in known["meta"]["refused"] if "the recording ends there" in one]
                self.assertEqual(len(why), 1, known["meta"]["refused"])
                self.assertIn("PR_SET_TSC" if way == "counter" else "strict mode", why[0])
            self.assertEqual(self.figures(known, "before")["allocations"], 1000)

    def test_a_filter_of_another_process_or_a_refused_one_changes_nothing(self):
        program = self.compile("closes", PROGRAM, "-pthread", "-O1", "-fno-builtin")
        for kind in ("refused", "vfork"):
            path = self.record(program, "full", "prctl", kind, "1000")
            told = self.execute(settings.tarn, "show", "--by", "leaks", path)
            self.assertNotIn("not known", told.stdout + told.stderr)

    def test_a_program_whose_collector_has_gone_pays_nothing_for_the_recorder(self):
        program = self.compile("cpu", r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main() {
  double best = 1e9;
  for (int round = 0; round < 9; ++round) {
    const clock_t begin = clock();
    for (int i = 0; i < 50000; ++i) {
      char* volatile block = (char*)malloc(100);
      block[0] = 1;
      free(block);
    }
    const double took = (double)(clock() - begin);
    if (took < best) best = took;
  }
  printf("%g\n", best);
}
""", "-O1", "-fno-builtin")

        def microseconds(**variables):
            return float(self.execute(program, code=0, env=dict(os.environ, LD_PRELOAD=settings.recorder, **variables)).stdout)

        unrecorded = microseconds()
        for place in ("/nonexistent/session", "no place"):
            self.assertLess(microseconds(TARN_RECORD=place), 3 * unrecorded + 500, place)
