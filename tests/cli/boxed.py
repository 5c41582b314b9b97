# SPDX-License-Identifier: MIT
"""A program that ends as it is told, and what its black box has of it."""
import glob
import json
import os
import re
import shutil
import tempfile

from harness import Base, settings

MIB = 1 << 20
INCLUDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../include")

# keep HOW MIB [PAUSE]: keeps blocks of 3,000 bytes, 1 MiB after the other, beside others that it frees, and ends as it is told.
PROGRAM = """
    #include <cstddef>
    #include <cstdlib>
    #include <cstring>
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    #include <sched.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    #include <string>
    #include <vector>
    #include <sys/wait.h>
    #include <thread>
    #include <unistd.h>
    static std::vector<char*> kept;
    [[gnu::noinline]] void keep_session() {
      kept.push_back(static_cast<char*>(std::malloc(3000)));
      std::memset(kept.back(), 1, 3000);
    }
    [[gnu::noinline]] void use_for_a_moment() {
      void* volatile block = std::malloc(5000);
      std::free(block);
    }
    static void keep(int mib, int pause) {
      for (int i = 0; i < mib * 340; ++i) {
        keep_session();
        use_for_a_moment();
        if (i % 340 == 339 && pause > 0) usleep(pause);
      }
    }
    int main(int count, char** words) {
      const std::string how = words[1];
      const int mib = std::atoi(words[2]);
      const int pause = count > 3 ? std::atoi(words[3]) : 0;
      if (how == "fork") {
        keep(10, 0);
        if (fork() == 0) {
          keep(mib, 0);
          kill(getpid(), SIGKILL);
        }
        wait(nullptr);
        return 0;
      }
      if (how == "threads") {
        std::vector<std::thread> all;
        for (int t = 0; t < 4; ++t) all.emplace_back([&] { for (int i = 0; i < mib * 100; ++i) use_for_a_moment(); });
        for (std::thread& each : all) each.join();
      }
      keep(mib, pause);
      if (how == "fork_free") {
        // The parent frees all that the child has inherited, before the child frees half of it.
        int gate[2];
        if (pipe(gate) != 0) return 1;
        if (fork() == 0) {
          char word;
          if (read(gate[0], &word, 1) != 1) return 1;
          for (std::size_t i = 0; i < kept.size() / 2; ++i) std::free(kept[i]);
          kill(getpid(), SIGKILL);
        }
        for (char* each : kept) std::free(each);
        if (write(gate[1], "x", 1) != 1) return 1;
        wait(nullptr);
        _exit(0);
      }
      if (how == "unreaped") {
        // Nobody waits for the child while it is told.
        if (fork() == 0) {
          keep(mib, 0);
          usleep(300000);
          kill(getpid(), pause == 1 ? SIGTERM : SIGKILL);
        }
        sleep(2);
        return 0;
      }
      if (how == "again" && mib > 0) {
        char* const words_again[] = {words[0], words[1], const_cast<char*>("0"), nullptr};
        char* const nothing[] = {nullptr};
        execve("/proc/self/exe", words_again, nothing);
      }
      if (how == "again") {
        usleep(1500000);
        kill(getpid(), SIGKILL);
      }
      if (how == "raw_fork") {
        const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        for (int i = 0; i < 100; ++i) keep(1, 0);
        if (child == 0) syscall(SYS_exit_group, 0);
        wait(nullptr);
        kill(getpid(), SIGKILL);
      }
      if (how == "sandbox") {
        // Kills at all calls but those that a process needs to end.
        sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        const sock_fprog program = {sizeof filter / sizeof *filter, filter};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
        _exit(0);
      }
      if (how == "quick") std::quick_exit(0);
      if (how == "raw") syscall(SYS_exit_group, 0);
      if (how == "kill" || how == "threads") kill(getpid(), SIGKILL);
      if (how == "abort") std::abort();
      if (how == "crash") *reinterpret_cast<volatile int*>(16) = 1;
      if (how == "misuse") { std::free(kept[0]); std::free(kept[0]); }
      if (how == "_exit") _exit(3);
      if (how == "_exit0") _exit(0);
      return how == "fails" ? 4 : 0;
    }"""


def bytes_in(text):
    """Of "12.5 MiB"."""
    number, unit = re.match(r"([\d.,]+) ([KMG]?i?B)", text).groups()
    return float(number.replace(",", "")) * {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}[unit]


class BlackBoxBase(Base):
    def setUp(self):
        super().setUp()
        self.boxes = tempfile.mkdtemp(prefix="tarn-box-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(shutil.rmtree, self.boxes)
        self.program = self.compile("keep", PROGRAM, "-g", "-O1", "-fno-builtin", "-pthread")

    def run_boxed(self, *words, before=(), **more):
        return self.execute(*before, settings.tarn, "run", "--black-box", self.boxes, "--", *words, **more)

    def left(self, ending):
        return sorted(glob.glob(os.path.join(self.boxes, "*" + ending)))

    def live_at(self, path, function):
        """Live bytes of a place of a profile or a box, and the margin."""
        shown = json.loads(self.execute(settings.tarn, "show", "--json", path, code=0).stdout)
        for row in shown["sites"]:
            if row["function"].startswith(function):
                return row["live_bytes"], row["margins"].get("live_bytes", 0)
        raise AssertionError(f"{function} is not in {path}: {shown}")

    def assert_kept(self, path, mib):
        live, margin = self.live_at(path, "keep_session")
        # Blocks of 3,000 bytes take 3,072. Five standard deviations; a margin is two.
        self.assertLess(abs(live - mib * 340 * 3072), 2.5 * margin, path)
        self.assertLess(margin, 0.8 * live)
