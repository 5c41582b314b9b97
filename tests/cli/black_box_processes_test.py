# SPDX-License-Identifier: MIT
"""End-to-end: tarn run --black-box: which process a box is of: children, images, users and namespaces."""
import os
import re
import shutil
import signal
import time

from boxed import PROGRAM, BlackBoxBase
from harness import FIRST, ZOMBIES, settings


class black_box_processes(BlackBoxBase):
    def test_a_child_has_a_box_of_its_own(self):
        result = self.run_boxed(self.program, "fork", "40")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, "keep, process .*: (killed by signal 9|it has ended, and nobody saw how)")
        profile, = self.left(".prof")
        self.assert_kept(profile, 50)

    def test_a_child_has_the_figures_of_the_fork(self):
        result = self.run_boxed(self.program, "fork_free", "80")
        self.assertEqual(result.returncode, 0)
        profile, = self.left(".prof")
        self.assert_kept(profile, 40)

    def test_a_child_past_libc_changes_nothing(self):
        result = self.run_boxed(self.program, "raw_fork", "40")
        self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
        # Of the child, which ends past libc, too, nobody may have seen how.
        parent = re.search(r"process (\d+): killed by signal 9", result.stderr).group(1)
        self.assert_kept(os.path.join(self.boxes, f"keep-{parent}.prof"), 140)

    def test_an_image_without_a_box_ends_well(self):
        result = self.run_boxed("sh", "-c", f"{self.program} ends 3; exec env -i true")
        self.assertEqual((result.returncode, result.stderr, os.listdir(self.boxes)), (0, "", []))

    def test_a_program_whose_file_is_replaced(self):
        program = shutil.copy(self.program, self.path("replaced"))
        watch = self.launch(settings.tarn, "run", "--black-box", self.boxes, "--", program, "kill", "60", "30000", stderr=-1)
        while not self.left(".box"):
            time.sleep(0.01)
        time.sleep(0.5)
        os.replace(shutil.copy(self.program, self.path("new")), program)
        _, said = watch.communicate(timeout=60)
        self.assertIn("killed by signal 9", said)
        self.assert_kept(self.left(".prof")[0], 60)

    def test_a_child_that_nobody_waits_for(self):
        self.assertRegex(self.run_boxed(self.program, "unreaped", "20").stderr, "keep, process .*: killed by signal 9")
        self.assert_kept(self.left(".prof")[0], 40)
        self.assertEqual(self.run_boxed(self.program, "unreaped", "20", "1").stderr, "")

    def test_an_orphan_of_a_container(self):
        program = f"({self.program} crash 20 &); sleep 1; {ZOMBIES}"
        result = self.execute(*FIRST, settings.tarn, "run", "--black-box", self.boxes, "--", "sh", "-c", program)
        if "unshare failed" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual((result.returncode, result.stdout), (0, "0\n"), result.stderr)
        self.assertRegex(result.stderr, r"keep, process \d+: killed by signal 11")

    def test_another_namespace_of_processes(self):
        result = self.run_boxed("unshare", "--pid", "--fork", "--mount-proc", self.program, "crash", "30", "20000")
        if "unshare failed" in result.stderr:
            self.skipTest(result.stderr)
        self.assertRegex(result.stderr, "keep, process 1: killed by signal 11")
        self.assert_kept(os.path.join(self.boxes, "keep-1.prof"), 30)

    def test_an_image_without_the_library(self):
        static = self.compile("static", PROGRAM, "-static", "-O1", "-pthread")
        for words, number in (((self.program, "again", "30", "100000"), signal.SIGKILL),
                              (("sh", "-c", f"exec {static} crash 30 30000"), signal.SIGSEGV),
                              (("env", "-i", self.program, "kill", "30", "30000"), signal.SIGKILL)):
            result = self.run_boxed(*words)
            self.assertEqual((result.returncode, os.listdir(self.boxes)), (-number, []), result.stderr)
            self.assertRegex(result.stderr, rf"^tarn: (keep|static), process \d+: killed by signal {number} .*; no box: it ran without tarn's malloc")
            self.assertNotIn("resident", result.stderr)
        # It is told of other processes, too, if the system says how they ended.
        said = self.run_boxed("sh", "-c", f"sh -c 'exec {static} crash 30 30000'; true").stderr
        # The shell tells it too, before or after.
        told = [line for line in said.splitlines() if not line.startswith("Segmentation fault")]
        self.assertLessEqual(len(told), 1, said)
        for line in told:
            self.assertRegex(line, "^tarn: static, process .*; no box")

    def test_an_image_of_another_user(self):
        words = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", shutil.copy(self.program, self.boxes), "kill", "40", "20000")
        if self.execute(*words[:4], "true").returncode != 0:
            self.skipTest("no right to become another user")
        os.chmod(self.boxes, 0o755)
        said = self.run_boxed(*words).stderr
        self.assertRegex(said, "tarn: keep, process .*: killed by signal 9 .*; no box")
        self.assertNotIn("resident", said)
        # Who may write there cannot remove the file of the image before.
        os.chmod(self.boxes, 0o1777)
        said = self.run_boxed(*words).stderr
        self.assertRegex(said, "^tarn: keep, process .*: killed by signal 9")
        self.assertNotIn("no box", said)
        profile, = self.left(".prof")
        self.assert_kept(profile, 40)
        self.assertEqual(self.left(".box"), [])
        # The same of two that no watch has seen alive.
        self.execute(*words, variables={"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": self.boxes})
        self.assertEqual(len(self.left(".box")), 2)
        said = self.run_boxed("true").stderr
        self.assertEqual((said.count("next:"), said.count("tarn: keep,"), self.left(".box")), (1, 1, []), said)

    def test_a_watch_that_may_not_read(self):
        tarn = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", settings.tarn, "run", "--black-box", self.boxes, "--")
        os.chmod(self.boxes, 0o1777)
        if self.execute(*tarn, "true").returncode != 0:
            self.skipTest("no right to become another user")
        self.execute(self.program, "kill", "10", variables={"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": self.boxes})
        box, = self.left(".box")
        said = self.execute(*tarn, "sleep", "0.3").stderr
        self.assertEqual(said, f"tarn: {box} belongs to another user: its process is not watched. Run tarn as that user, or as root\n")

    def test_another_namespace_of_times(self):
        result = self.run_boxed("unshare", "--time", "--boottime", "100000", "--fork", self.program, "kill", "30", "20000")
        if "unshare failed" in result.stderr or "unrecognized" in result.stderr:
            self.skipTest(result.stderr)
        self.assertRegex(result.stderr, "keep, process .*: killed by signal 9")
        self.assertNotIn("nobody saw", result.stderr)

    def test_a_child_without_a_sample(self):
        program = self.compile("copies", """
            #include <csignal>
            #include <cstdlib>
            #include <cstring>
            #include <sys/wait.h>
            #include <unistd.h>
            int main() {
              char* volatile kept = static_cast<char*>(std::malloc(20 << 20));
              std::memset(kept, 1, 20 << 20);
              const pid_t child = fork();
              if (child == 0) {
                std::memset(kept, 2, 20 << 20);
                sleep(2);
                raise(SIGKILL);
              }
              siginfo_t end;
              waitid(P_PID, child, &end, WEXITED | WNOWAIT);
              sleep(1);
              return wait(nullptr) == child ? 0 : 1;
            }""", "-O1")
        result = self.run_boxed(program)
        self.assertEqual((result.returncode, self.left(".prof")), (0, []))
        self.assertRegex(result.stderr, r"^tarn: copies, process \d+: killed by signal 9 \(Killed\); no box: .* forked and took no sample since\n$")

    def test_ids_that_are_the_same_in_two_namespaces(self):
        each = f"unshare --pid --fork --mount-proc sh -c '{self.program} kill 20 20000; true' 2> {self.path('said')}"
        if self.execute("unshare", "--pid", "--fork", "--mount-proc", "true").returncode != 0:
            self.skipTest("no right to make a namespace")
        said = self.run_boxed("sh", "-c", f"for i in 1 2 3 4 5 6; do {each} & done; wait").stderr
        self.assertEqual((said.count("tarn: keep, process"), len(self.left(".prof")), self.left(".box")), (6, 6, []), said)
        for profile in self.left(".prof"):
            self.assert_kept(profile, 20)

    def test_started_by_the_dynamic_linker(self):
        linker = re.search(r"interpreter: ([^\]]*)", self.execute("readelf", "-l", self.program).stdout).group(1)
        said = self.run_boxed(linker, self.program, "kill", "20", "20000").stderr
        self.assertIn("keep_session", said)
        self.assert_kept(self.left(".prof")[0], 20)

    def test_a_process_that_ends_amid_a_look(self):
        # The kernel joins what it has mapped with a block, so a look reads which pages are there. Amid a later one the process ends.
        program = self.compile("joined", """
            #include <cstdint>
            #include <cstdlib>
            #include <cstring>
            #include <sys/mman.h>
            #include <unistd.h>
            int main() {
              constexpr std::size_t bytes = 60 << 20;
              char* volatile block = static_cast<char*>(std::malloc(std::size_t{1} << 30));
              std::memset(block, 1, 1 << 16);
              auto at = reinterpret_cast<std::uintptr_t>(block) & ~((std::uintptr_t{2} << 20) - 1);
              void* own = MAP_FAILED;
              for (at -= bytes; own == MAP_FAILED; at -= 4096)
                own = mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
              std::memset(own, 1, bytes);
              for (int i = 0; i < 2000; ++i) {
                std::free(std::malloc(1 << 20));
                usleep(10000);
              }
            }""", "-O1", "-fno-builtin")
        killer = self.compile("killer.so", r"""
            #include <csignal>
            #include <cstdio>
            #include <fcntl.h>
            #include <sys/syscall.h>
            #include <unistd.h>
            extern "C" int open(const char* path, int flags, ...) {
              static int times = 0;
              int process = 0;
              char after = 0;
              if (std::sscanf(path, "/proc/%d/pagema%c", &process, &after) == 2 && ++times == 8) {
                kill(process, SIGKILL);
                usleep(500000);
              }
              return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, 0600));
            }""", "-shared", "-fPIC")
        said = self.run_boxed(program, variables={"LD_PRELOAD": killer}).stderr
        self.assertRegex(said, r" 60\.\d MiB +\S+ %  mapped by the program itself\n")
        self.assertIn("killed by signal 9", said)

    def test_a_long_name(self):
        program = shutil.copy(self.program, self.path("a" + "é" * 60))
        said = self.run_boxed(program, "kill", "20", "20000").stderr
        self.assertTrue(os.path.exists(re.search(r"tarn report (.*)\n", said).group(1)), said)
