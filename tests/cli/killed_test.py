# SPDX-License-Identifier: MIT
"""End-to-end: a recorder that is killed at any moment. Its file has everything but the last moments, and can be read."""
import json
import os
import random
import signal
import subprocess
import time

from harness import Base, environment, settings

CHECKPOINT = 0.2  # seconds
MOST_LOST = CHECKPOINT + 1

# Allocates on 256 call paths in turn, once in half a millisecond, so that a checkpoint is much to write. Each 100th of a second it
# tells how often, on a line of the same length.
PROGRAM = """
    #include <cstdio>
    #include <cstdlib>
    #include <ctime>
    #include <unistd.h>
    static void* volatile last;
    [[gnu::noinline]] void get(unsigned) { last = std::malloc(100000); std::free(last); }
    [[gnu::noinline]] void left(unsigned path, int depth);
    [[gnu::noinline]] void right(unsigned path, int depth) {
      if (depth == 0) get(path); else if (path >> depth & 1) left(path, depth - 1); else right(path, depth - 1);
      asm volatile("");
    }
    [[gnu::noinline]] void left(unsigned path, int depth) {
      if (depth == 0) get(path); else if (path >> depth & 1) left(path, depth - 1); else right(path, depth - 1);
      asm volatile("");
    }
    int main() {
      for (unsigned long count = 1;; ++count) {
        right(static_cast<unsigned>(count), 8);
        timespec now = {};
        clock_gettime(CLOCK_REALTIME, &now);
        char line[64];
        const int size = std::snprintf(line, sizeof line, "%12lu %12ld.%09ld\\n", count, now.tv_sec, now.tv_nsec);
        if (count % 20 == 1 && write(1, line, size) != size) return 1;
        usleep(500);
      }
    }"""


class KilledBase(Base):
    def setUp(self):
        super().setUp()
        self.random = random.Random()
        self.program = self.compile("service", PROGRAM, "-g", "-O1", "-fno-builtin")
        self.recording = self.path("x.prof")

    def start(self, words):
        """The recorder of a program that tells what it does in the file `told`; and the program's id."""
        told = open(self.path("told"), "wb")
        self.addCleanup(told.close)
        recorder = [settings.tarn, *words, "-q", "--checkpoint", str(CHECKPOINT), "-o", self.recording]
        variables = environment(TARN_RECORDER=settings.recorder)
        if words[0] == "attach":
            program = subprocess.Popen([self.program], stdout=told)
            self.addCleanup(program.wait)
            while os.path.getsize(told.name) == 0:  # before, it has not loaded its libraries
                time.sleep(0.01)
            return subprocess.Popen([*recorder, str(program.pid)], env=variables), program.pid
        tarn = subprocess.Popen([*recorder, "--", self.program], stdout=told, stdin=subprocess.DEVNULL, env=variables)
        while not (children := self.children_of(tarn.pid)):
            time.sleep(0.01)
        return tarn, children[0]

    def children_of(self, process):
        """Those that run the program."""
        found = self.read(f"/proc/{process}/task/{process}/children").split()
        return [int(one) for one in found if self.runs_the_program(one)]

    def runs_the_program(self, process):
        try:
            return os.readlink(f"/proc/{process}/exe") == self.program
        except OSError:  # it has ended
            return False

    def told_until(self, moment):
        """How many blocks the program had allocated at that time, at least."""
        count = 0
        with open(self.path("told"), encoding="ascii") as file:
            for line in file:
                words = line.split()
                if len(words) == 2 and float(words[1]) <= moment:
                    count = int(words[0])
        return count

    def kill_and_read(self, words):
        tarn, program = self.start(words)
        try:
            deadline = time.monotonic() + 60
            while not os.path.exists(self.recording):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            time.sleep(self.random.uniform(0.3, 3))
            tarn.kill()
            killed = time.time()
            tarn.wait()
            before = self.told_until(time.time())
            time.sleep(0.3)
            self.assertGreater(self.told_until(time.time()), before, "the program does not go on")
        finally:
            tarn.kill()
            tarn.wait()
            os.kill(program, signal.SIGKILL)
        self.assertLessEqual(set(os.listdir(self.folder)), {"service", "told", "x.prof", "x.prof.tarn-new"})
        dump = json.loads(self.execute(settings.profile_dump, self.recording, code=0).stdout)
        reaches = dump["meta"]["start"] + dump["meta"]["duration_ns"] / 1e9
        self.assertLess(killed - reaches, MOST_LOST)
        if words[0] == "profile":  # of an attached program, the beginning was not recorded
            recorded = sum(site["figures"]["allocations"] for site in dump["sites"])
            self.assertGreaterEqual(recorded, self.told_until(killed - MOST_LOST))
        self.assert_readable()
        os.unlink(self.recording)

    def assert_readable(self):
        shown = self.execute(settings.tarn, "show", "-m", "bytes", self.recording, code=0)
        self.assertIn("get", shown.stdout)
        self.assertRegex(shown.stderr, r"ends [0-9.]+ m?s after the start of the program: its recording goes on, or was killed")
        page = self.path("x.html")
        self.execute(settings.tarn, "report", "-o", page, self.recording, code=0)
        self.assertIn("get", self.read(page))
        os.unlink(page)


class killed(KilledBase):
    def test_a_killed_recorder_loses_the_last_moment(self):
        self.kill_and_read(["profile", "--mode", "full"])
        self.kill_and_read(["profile"])
        self.kill_and_read(["attach"])

    def test_what_a_killed_one_left_beside_its_file_goes(self):
        with open(self.recording + ".tarn-new", "wb"):
            pass
        tarn, program = self.start(["profile"])
        time.sleep(2)
        os.kill(program, signal.SIGKILL)
        tarn.wait()
        self.assertEqual(set(os.listdir(self.folder)), {"service", "told", "x.prof"})
        shown = self.execute(settings.tarn, "show", self.recording)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))


class killed_often(KilledBase):
    def test_a_killed_recorder_loses_the_last_moment(self):
        for count in range(20):
            self.kill_and_read([["profile", "--mode", "full"], ["profile"], ["profile", "--mode", "full", "--no-events"],
                                ["attach"]][count % 4])
