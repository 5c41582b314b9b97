# SPDX-License-Identifier: MIT
"""End-to-end: the black box where the kernel kills, or says little, and a hundred kills at any moment."""
import errno
import os
import platform
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

from boxed import INCLUDE, MIB, BlackBoxBase, bytes_in
from containers_test import Group
from harness import refuse_call, settings

# keep_session keeps what it allocates, beside twenty places whose blocks end with their request.
SERVICE = """
    #include <cstdlib>
    #include <cstring>
    #include <unistd.h>
    #include <utility>
    #include <vector>
    #include <tarn/scope.hpp>
    [[gnu::noinline]] void* keep_session() { return std::memset(std::malloc(3000), 1, 3000); }
    template <int N> [[gnu::noinline]] void* place() { return std::memset(std::malloc(1000 + N * 100), 1, 1000 + N * 100); }
    template <int... N> void answer(std::integer_sequence<int, N...>) {
      for (void* each : {place<N>()...}) std::free(each);
    }
    int main() {
      tarn::scope sessions("sessions");
      std::vector<void*> kept;
      for (;; usleep(3000)) {
        tarn::scope request("request", {.limit = 4 << 20});
        {
          auto in = request.enter();
          for (int i = 0; i < 20; ++i) answer(std::make_integer_sequence<int, 20>());
        }
        auto in = sessions.enter();
        for (int i = 0; i < 100; ++i) kept.push_back(keep_session());
      }
    }"""

PYTHON = """
import time
log, index = [], {}
while True:
    for number in range(200):
        log.append((str(number), bytes(900)))
        index[str(len(log))] = log[-1]
        words = [str(each) for each in range(20)]
    time.sleep(0.003)
"""


def is_before(*version):
    return tuple(map(int, re.match(r"(\d+)\.(\d+)", platform.release()).groups())) < version


# Older kernels are what they are: before 5.14 a process under a filter knows too little of its stack to find callers.
def before_5_14():
    is_before(5, 14) or refuse_call({"x86_64": 28, "aarch64": 233}[platform.machine()], errno.EINVAL, 2, 23)  # madvise: MADV_POPULATE_WRITE


def before_6_15():
    is_before(6, 15) or refuse_call({"x86_64": 16, "aarch64": 29}[platform.machine()], errno.ENOTTY, 1, 0xC040FF0B)  # ioctl: PIDFD_GET_INFO


def old_kernel():
    before_5_14()
    before_6_15()


class black_box_kernels(BlackBoxBase):
    """What the kernel says, or does not: also on Debian's kernels (tests/kernels)."""

    def test_the_group_is_full(self):
        group = Group(self, 200, "box")
        result = self.run_boxed(self.program, "kill", "100000", before=group.words)
        self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
        self.assertIn("killed by the kernel, as memory had run out (OOM killer)", result.stderr)
        self.assertIn("the limit of its control group is 200 MiB", result.stderr)
        # What was resident: all of the group but what tarn itself and the kernel have.
        told = bytes_in(re.search(r"what was resident at \S+ \S+ ([^(]+) \(in full", result.stderr).group(1))
        self.assertLess(abs(told - 200 * MIB), 0.1 * 200 * MIB, result.stderr)

    def test_the_group_above_is_full(self):
        outer = Group(self, 200, "outer")
        inner = Group(self, None, "inner", below=(outer.folder, outer.kind))
        result = self.run_boxed(self.program, "kill", "100000", before=inner.words)
        self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
        self.assertIn("killed by the kernel, as memory had run out (OOM killer)", result.stderr)
        self.assertIn("the limit of its control group is 200 MiB", result.stderr)

    def test_a_server_holds_boxes(self):
        service = self.launch(settings.tarn, "serve", "--listen", "127.0.0.1:0", "--black-box", self.boxes, stdout=-1, stderr=-1)
        service.stdout.readline()
        variables = {"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": self.boxes}
        group = Group(self, 200, "served")
        for how, said in (("kill 30 5000", "killed by signal 9"), ("fails 30", ""), ("kill 100000 1000", "the limit of its control group is 200 MiB")):
            before = len(self.left(".prof"))
            ended = self.execute(*(group.words if "100000" in how else ()), self.program, *how.split(), variables=variables)
            self.assertNotEqual(ended.returncode, 0)
            while self.left(".box"):
                time.sleep(0.05)
            self.assertEqual(len(self.left(".prof")) - before, 1 if said else 0, how)
        service.send_signal(signal.SIGTERM)
        _, told = service.communicate(timeout=60)
        self.assertEqual(service.returncode, 0, told)
        # Before Linux 6.15 the server knows of the group alone.
        self.assertRegex(told, r"killed by the kernel, as memory had run out \(OOM killer\)|"
                               r"the kernel killed a process of its control group then, as memory had run out \(OOM killer\)")
        self.assertRegex(told, "the limit of (its control|the) group is 200 MiB")
        self.assertEqual(told.count("next: tarn report"), 2, told)

    def test_a_kernel_that_backs_no_pages_when_asked(self):
        result = self.run_boxed(self.program, "kill", "40", "20000", preexec_fn=before_5_14)
        if result.returncode == 99:
            self.skipTest("no system call filters here")
        self.assertIn("killed by signal 9", result.stderr)
        self.assert_kept(self.left(".prof")[0], 40)
        # Then a box has a fixed size, all of it backed, and takes it from the file system at once.
        folder = os.path.join(self.boxes, "small")
        os.mkdir(folder)
        if self.execute("mount", "-t", "tmpfs", "-o", "size=512k", "none", folder).returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(self.execute, "umount", folder)
        result = self.execute(self.program, "_exit", "40", variables={"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": folder},
                              preexec_fn=before_5_14)
        self.assertEqual((result.returncode, os.listdir(folder)), (3, []), result.stderr)
        self.assertIn("the file system has no room", result.stderr)

    def test_a_kernel_that_does_not_tell_how_a_process_ended(self):
        for kernel in (before_6_15, old_kernel):
            with self.subTest(kernel.__name__):
                # How the program ended its parent is told; how another process did, nobody knows.
                said = self.run_boxed(self.program, "kill", "40", preexec_fn=kernel).stderr
                self.assertIn("killed by signal 9", said)
                said = self.run_boxed(self.program, "fork", "40", preexec_fn=kernel).stderr
                self.assertRegex(said, "keep, process .*: it has ended, and nobody saw how")
                self.assertNotIn("killed by", said)
                self.assertRegex(said, "what lived at the end|what was resident")
                self.assertRegex(said, r"% +keep_session")
                parent, child = sorted(self.left(".prof"), key=os.path.getmtime)
                self.assert_kept(parent, 40)
                self.assert_kept(child, 50)
                # Nobody waits for this one while it is told: the system says it by its zombie.
                said = self.run_boxed(self.program, "unreaped", "20", preexec_fn=kernel).stderr
                self.assertRegex(said, "keep, process .*: killed by signal 9")
                # A process that held little, and ended without a mark, is not told of.
                self.assertEqual(self.run_boxed("sh", "-c", f"{self.program} raw 0; true", preexec_fn=kernel).stderr, "")
                # A server is no parent of what it holds.
                self.assertRegex(self.served(kernel, "kill 30 5000"), "keep, process .*: (it has ended, and nobody saw how\n|killed by signal 9)")
                told = self.served(kernel, "kill 100000 1000", *Group(self, 200, kernel.__name__).words)
                self.assertRegex(told, "keep, process .*: (it has ended, and nobody saw how; the kernel killed a process of its control group|"
                                       "killed by the kernel)")
                self.assertIn("OOM killer", told)
                self.assertRegex(told, "the limit of (its control|the) group is 200 MiB")
                for each in os.listdir(self.boxes):
                    os.unlink(os.path.join(self.boxes, each))

    def served(self, kernel, how, *before):
        """What a server says of a program that ends so."""
        service = self.launch(settings.tarn, "serve", "--listen", "127.0.0.1:0", "--black-box", self.boxes, stdout=-1, stderr=-1,
                              preexec_fn=kernel)
        service.stdout.readline()
        self.execute(*before, "sh", "-c", f"{self.program} {how}; true", variables={"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": self.boxes},
                     preexec_fn=kernel)
        while self.left(".box"):
            time.sleep(0.05)
        service.send_signal(signal.SIGTERM)
        _, told = service.communicate(timeout=60)
        self.assertRegex(told, r"% +keep_session")
        return told


class black_box_often(BlackBoxBase):
    """A hundred kills at random moments, of three programs that grow."""
    KINDS = {signal.SIGKILL: "killed by signal 9", signal.SIGSEGV: "killed by signal 11", signal.SIGABRT: "killed by signal 6",
             None: "killed by the kernel, as memory had run out (OOM killer)"}  # its control group is full
    PLACES = {"service": "keep_session", "python": "_?Py", "redis": "_?sds"}  # the first of each program

    def words_of(self, program, path):
        if program == "python":
            return [sys.executable, "-c", PYTHON]
        if program == "redis":
            if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
                self.skipTest("redis is not installed")
            # By its test of memory redis writes to all that it has, before a signal ends it, and tarn's thread stumbles over that.
            return ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--crash-memcheck-enabled", "no"]
        folder = os.path.dirname(settings.library)
        return [self.compile("service", SERVICE, "-std=c++20", "-g", "-O1", "-fno-builtin", "-I", INCLUDE, "-L", folder, "-ltarn",
                             f"-Wl,-rpath,{folder}")]

    def start(self, *words, before=()):
        """What watches the program, and the program's process."""
        for each in os.listdir(self.boxes):
            os.unlink(os.path.join(self.boxes, each))
        watch = self.launch(*before, settings.tarn, "run", "--black-box", self.boxes, "--", *words, stdout=subprocess.DEVNULL, stderr=-1,
                            env=self.environment(PYTHONMALLOC="malloc"))
        while not self.left(".box"):
            time.sleep(0.001)
        return watch, int(os.path.basename(self.left(".box")[0]).split("-")[0])

    @staticmethod
    def held_by(process):
        """Its memory that is no page cache."""
        with open(f"/proc/{process}/smaps_rollup", encoding="utf-8") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith(("Pss_Anon:", "Pss_Shmem:")))

    def kill(self, program, kind, number):
        """What is said of it, and what it held before."""
        path = self.path(f"socket{number}")
        words = self.words_of(program, path)
        group = None if kind else Group(self, random.randint(140, 260), f"kill{number}")
        watch, process = self.start(*words, before=group.words if group else ())
        if program == "redis":
            with socket.socket(socket.AF_UNIX) as connection:
                while connection.connect_ex(path) != 0:
                    time.sleep(0.001)
            self.launch("redis-benchmark", "-s", path, "-t", "set", "-r", "9999999", "-n", "99999999", "-d", "900", stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL)
        held = 0
        if group:
            while watch.poll() is None:
                held = max(held, group.held())
                time.sleep(0.002)
        else:
            enough, taken = random.randint(40, 100) * MIB, 0
            while held < enough or (taken > 0.005 and held < 4 * enough):  # on a busy machine it has grown since
                time.sleep(0.002)
                begin = time.monotonic()
                held = self.held_by(process)
                taken = time.monotonic() - begin
            os.kill(process, kind)
        return watch.communicate(timeout=60)[1], held

    def test_a_hundred_kills_at_any_moment(self):
        off = {}
        for number in range(100):
            program, kind = list(self.PLACES)[number % 3], list(self.KINDS)[number // 3 % 4]
            with self.subTest(number=number, program=program, kind=kind):
                said, held = self.kill(program, kind, number)
                self.assertIn(self.KINDS[kind], said)
                # The watch lives: it says the last line, too.
                profile, = self.left(".prof")
                self.assertTrue(said.endswith(f"next: tarn report {profile}\n"), said)
                self.assertEqual(self.left(".box"), [])
                self.execute(settings.tarn, "show", profile, code=0)
                self.assertRegex(re.search(r"live blocks\n.* %    (.*)", said).group(1), f"^({self.PLACES[program]})", said)
                told, files = (bytes_in(re.search(what, said).group(1)) for what in (
                    r"what was resident at \S+ \S+ (\S+ \S+) \(in full", r"outside of malloc: (\S+ \S+) code and data of files, in the page cache"))
                off.setdefault((program, self.KINDS[kind]), []).append((told - files) / held - 1)
                self.assertLess(abs(off[program, self.KINDS[kind]][-1]), 0.03, f"{held}: {said}")
        print(*(f"\n{program:8}| {end:56} | {len(each):2} reports, the sum is off by {min(each):+.1%} to {max(each):+.1%}"
                for (program, end), each in sorted(off.items())), sep="")

    def test_the_watch_outlives_its_program(self):
        # Who reads /proc holds the memory of the dead, when the kernel looks for somebody to kill.
        reader = "while True: open('/proc/{}/smaps_rollup', encoding='utf-8').read()"
        told = 0
        for number in range(10):
            watch, process = self.start(self.program, "kill", "100000", "5000", before=Group(self, 100, f"read{number}").words)
            readers = [self.launch(sys.executable, "-c", reader.format(process), stderr=subprocess.DEVNULL) for _ in range(2)]
            told += "next: tarn report" in watch.communicate(timeout=60)[1]
            for each in readers:
                each.wait(timeout=60)
        # The others have died in the middle of a look. Without the wait for room it is about three.
        self.assertGreaterEqual(told, 7)
