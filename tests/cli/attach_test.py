# SPDX-License-Identifier: MIT
"""End-to-end: `tarn attach`, `detach`, `dump` and `profile --paused` on a program that does what the test says."""
import glob
import json
import os
import signal
import subprocess
import sys
import time

from harness import settings
from profile_test import ProfileBase

LIBRARY = """
#include <stdlib.h>
void* volatile escape;
void call_library(long count) { for (long index = 0; index < count; ++index) { escape = malloc(300); free(escape); } }
"""


class Target:
    """attach_target.cpp as a child process; ask() sends it a command and returns its answer."""

    def __init__(self, test, *words, **more):
        self.process = subprocess.Popen([*words, settings.attach_target], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, bufsize=1, env=test.environment(), **more)
        test.addCleanup(self.end)
        assert self.process.stdout.readline() == "ready\n"

    @property
    def pid(self):
        return self.process.pid

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        return self.process.stdout.readline().strip()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def children_of(process):
    try:
        with open(f"/proc/{process}/task/{process}/children", encoding="utf-8") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


class AttachBase(ProfileBase):
    def attach(self, pid, *options, mode="full"):
        """Starts `tarn attach` and returns its process. It writes x.prof."""
        self.recording = self.path("x.prof")
        return self.launch(settings.tarn, "attach", "--mode", mode, "-o", self.recording, *options, str(pid), stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)

    def attached(self, pid, *options, **more):
        tarn = self.attach(pid, *options, **more)
        first = tarn.stderr.readline()
        self.assertIn(f"recording process {pid}", first, first)
        return tarn

    def tarn(self, *words, code=0):
        return self.execute(settings.tarn, *words, code=code)

    def detach(self, tarn, pid):
        result = self.tarn("attach", "--stop", str(pid))
        self.assertEqual(tarn.wait(timeout=30), 0)
        self.said = tarn.stderr.read()
        return result

    def finished(self, tarn):
        self.assertEqual(tarn.wait(timeout=30), 0)
        self.said = tarn.stderr.read()
        return self.dump(self.recording)

    def child_of(self, target):
        """The process id of the program that `target`, a tarn, has started; returns when its control socket is open."""
        child = str(children_of(target.pid)[0])
        for _ in range(600):
            with open("/proc/net/unix", encoding="utf-8") as file:
                if f"@tarn-control-{child}." in file.read():
                    return child
            time.sleep(0.05)
        self.fail("tarn opened no control socket within 30 s")
        return None

    def count(self, profile, function):
        sums = [site["figures"] for site in profile["sites"] if function in site["label"]]
        return (sum(one.get("allocations", 0) for one in sums), sum(one.get("frees", 0) for one in sums))


class attach(AttachBase):
    def test_a_program_that_the_dynamic_loader_has_started(self):
        loader = next(line.split()[-2] for line in self.execute("ldd", settings.attach_target,
                                                                code=0).stdout.splitlines() if "/ld-linux" in line)
        target = Target(self, loader, "--library-path", "/nowhere")
        tarn = self.attached(target.pid)
        target.ask("burst 1 1000")
        self.detach(tarn, target.pid)
        self.assertEqual(self.figures(self.dump(self.recording), "burst_make")["allocations"], 1000)

    def test_counts_are_exact_from_attach_to_detach(self):
        target = Target(self)
        target.ask("burst 1 1000")
        target.ask("keep 500")
        tarn = self.attached(target.pid)
        target.ask("burst 1 5000")
        target.ask("burst 8 2000")
        target.ask("drop")
        target.ask("keep 70")
        self.detach(tarn, target.pid)
        target.ask("burst 1 300")
        known = self.dump(self.recording)
        self.assertEqual(self.count(known, "burst_make"), (21000, 21000))
        self.assertEqual(self.count(known, "keep_make"), (70, 0))
        self.assertEqual(known["lost_events"], 0)
        self.assertEqual(target.ask("burst 1 1"), "done")

    def test_peak_is_that_of_the_recorded_time_only(self):
        target = Target(self)
        target.ask("keep 500000")
        target.ask("drop")
        tarn = self.attached(target.pid)
        target.ask("burst 1 1000")
        time.sleep(0.3)
        self.detach(tarn, target.pid)
        known = json.loads(self.tarn("show", "--by", "rss", "--json", self.recording).stdout)
        self.assertLess(known["peak_resident_bytes"], 40 << 20)
        self.assertFalse(known["peak_exact"])

    def test_threads_that_were_there_are_recorded_and_none_is_hurt(self):
        target = Target(self)
        target.ask("busy 64")
        for mode in ("sample", "full"):
            tarn = self.attached(target.pid, "--no-events", mode=mode)
            time.sleep(0.3)
            self.detach(tarn, target.pid)
            known = self.dump(self.recording)
            self.assertGreater(self.count(known, "be_busy")[0], 0, mode)
        self.assertEqual(target.ask("calm"), "0")

    def test_slots_are_as_before(self):
        target = Target(self)
        for _ in range(2):
            before = target.ask("slots")
            tarn = self.attached(target.pid)
            self.assertNotEqual(target.ask("slots"), before)
            self.detach(tarn, target.pid)
            self.assertEqual(target.ask("slots"), before)

    def test_nothing_but_an_unused_library_stays(self):
        target = Target(self)
        target.ask("burst 1 10")
        tarn = self.attached(target.pid)
        target.ask("burst 4 10")
        self.detach(tarn, target.pid)
        self.assertNotIn("memfd:tarn", self.read(f"/proc/{target.pid}/maps"))
        names = [os.readlink(link) for link in glob.glob(f"/proc/{target.pid}/fd/*")]
        self.assertFalse([name for name in names if "tarn" in name or "socket" in name], names)
        self.assertEqual(len(os.listdir(f"/proc/{target.pid}/task")), 1)

    def test_the_stop_is_short_and_a_system_call_goes_on(self):
        target = Target(self)
        target.process.stdin.write("sleep\n")
        time.sleep(0.1)
        tarn = self.attach(target.pid, "--json", "--for", "0.5")
        self.assertEqual(target.process.stdout.readline(), "whole\n")
        self.assertEqual(tarn.wait(timeout=30), 0)
        summary = json.loads(tarn.stderr.read())
        self.assertGreater(summary["longest_stop_ms"], 0)
        # A bound that holds on a busy machine, too; docs/reference/profiling.md states the usual duration.
        self.assertLess(summary["longest_stop_ms"], 500)

    def test_a_library_that_is_loaded_later_is_recorded(self):
        library = self.compile("later.so", LIBRARY, "-shared", "-fPIC", "-fno-builtin", "-g", language="c")
        target = Target(self)
        tarn = self.attached(target.pid)
        self.assertEqual(target.ask("load " + library), "loaded")
        time.sleep(1)
        target.ask("call 700")
        self.detach(tarn, target.pid)
        self.assertEqual(self.count(self.dump(self.recording), "call_library"), (700, 700))

    def test_a_child_that_is_forked_later_is_recorded(self):
        target = Target(self)
        tarn = self.attached(target.pid)
        self.assertEqual(target.ask("fork 4000"), "3")
        target.ask("burst 1 100")
        self.detach(tarn, target.pid)
        self.assertEqual(self.count(self.dump(self.recording), "burst_make"), (4100, 4100))

    def test_exec_ends_the_recording(self):
        target = Target(self)
        tarn = self.attached(target.pid)
        target.ask("burst 1 100")
        self.assertEqual(target.ask("exec"), "ready")
        known = self.finished(tarn)
        self.assertEqual(self.count(known, "burst_make"), (100, 100))
        self.assertEqual(target.ask("burst 1 100"), "done")
        again = self.attached(target.pid)
        target.ask("burst 1 200")
        self.detach(again, target.pid)
        self.assertEqual(self.count(self.dump(self.recording), "burst_make"), (200, 200))

    def test_the_program_may_end_at_any_time(self):
        for moment in (0, 0.05, 0.2, 0.4, 0.8):
            target = Target(self)
            target.ask("busy 4")
            tarn = self.attach(target.pid)
            time.sleep(moment)
            target.process.kill()
            self.assertEqual(target.process.wait(timeout=10), -signal.SIGKILL)
            self.assertIn(tarn.wait(timeout=30), (0, 125), tarn.stderr.read())

    def test_interrupt_and_duration_detach(self):
        target = Target(self)
        tarn = self.attached(target.pid)
        target.ask("burst 1 123")
        tarn.send_signal(signal.SIGINT)
        self.assertEqual(self.count(self.finished(tarn), "burst_make"), (123, 123))
        tarn = self.attached(target.pid, "--for", "0.3")
        target.ask("burst 1 45")
        self.assertEqual(self.count(self.finished(tarn), "burst_make"), (45, 45))
        self.assertIn("longest stop", self.said)
        self.assertEqual(target.ask("burst 1 10"), "done")

    def test_slots_that_a_killed_tarn_left_changed_are_restored_by_the_next(self):
        target = Target(self)
        before = target.ask("slots")
        tarn = self.attached(target.pid)
        target.ask("burst 4 100")
        tarn.kill()
        tarn.wait()
        self.assertEqual(target.ask("burst 4 100"), "done")
        tarn = self.attached(target.pid)
        target.ask("burst 1 60")
        self.detach(tarn, target.pid)
        self.assertEqual(self.count(self.dump(self.recording), "burst_make"), (60, 60))
        self.assertEqual(target.ask("slots"), before)

    def test_dump_does_not_end_the_recording(self):
        target = Target(self)
        tarn = self.attached(target.pid)
        target.ask("burst 1 50")
        path = self.tarn("attach", "--dump", str(target.pid)).stdout.strip()
        self.assertEqual(path, f"tarn-{target.pid}-dump-1.prof")
        self.assertEqual(self.count(self.dump(self.path(path)), "burst_make"), (50, 50))
        target.ask("burst 1 50")
        self.tarn("attach", "--dump", "-o", "y.prof", str(target.pid))
        self.assertEqual(self.count(self.dump(self.path("y.prof")), "burst_make"), (100, 100))
        self.detach(tarn, target.pid)

    def test_dump_under_profile(self):
        target = Target(self, settings.tarn, "profile", "--mode", "full", "-o", self.path("x.prof"), "--",
                        stderr=subprocess.DEVNULL)
        child = self.child_of(target)
        target.ask("burst 1 50")
        self.tarn("attach", "--dump", "-o", "y.prof", child)
        self.assertEqual(self.count(self.dump(self.path("y.prof")), "burst_make"), (50, 50))
        self.assertIn("already being recorded", self.tarn("attach", "--stop", child, code=125).stderr)
        self.assertIn("already being recorded", self.tarn("attach", child, code=125).stderr)

    def test_a_recorder_after_another_library_in_ld_preload(self):
        front = self.compile("front.so", """
            #define _GNU_SOURCE
            #include <dlfcn.h>
            #include <stddef.h>
            void* malloc(size_t bytes) {
              static void* (*next)(size_t);
              if (next == NULL) next = (void* (*)(size_t))dlsym(RTLD_NEXT, "malloc");
              return next(bytes);
            }""", "-shared", "-fPIC", language="c")
        path = self.path("x.prof")
        target = Target(self, settings.tarn, "profile", "-q", "--mode", "full", "-o", path, "--", "env",
                        f"LD_PRELOAD={front}:{settings.recorder}")
        target.ask("burst 1 20000")
        target.process.stdin.write("\n")
        target.process.wait(timeout=20)
        known = [self.dump(one) for one in glob.glob(self.path("*.prof"))]
        self.assertIn(20000, [sum(site["figures"].get("frees", 0) for site in one["sites"]
                                  if site["figures"].get("bytes") == 2000000) for one in known])


class paused(AttachBase):
    def begin(self):
        target = Target(self, settings.tarn, "profile", "--paused", "--mode", "full", "-o",
                        self.path("x.prof"), "--", stderr=subprocess.DEVNULL)
        return target, self.child_of(target)

    def test_each_recorded_interval_has_a_file(self):
        target, child = self.begin()
        target.ask("burst 1 1000")
        self.assertNotIn("libtarn", self.read(f"/proc/{child}/maps"))
        self.assertIn("is paused", self.tarn("attach", "--dump", child, code=125).stderr)
        for count in (20, 30):
            self.tarn("attach", child)
            target.ask(f"burst 1 {count}")
            self.assertIn("already being recorded", self.tarn("attach", child, code=125).stderr)
            self.tarn("attach", "--stop", child)
            target.ask("burst 1 1000")
        target.process.stdin.write("\n")
        self.assertEqual(target.process.wait(timeout=20), 0)
        for name, count in (("x.prof", 20), ("x-2.prof", 30)):
            known = self.dump(self.path(name))
            self.assertEqual(self.count(known, "burst_make"), (count, count))

    def test_the_program_ends_while_it_is_recorded(self):
        target, child = self.begin()
        self.tarn("attach", child)
        target.ask("burst 1 77")
        os.kill(int(child), signal.SIGTERM)
        self.assertEqual(target.process.wait(timeout=20), -signal.SIGTERM)
        self.assertEqual(self.count(self.dump(self.path("x.prof")), "burst_make"), (77, 77))

    def test_the_program_ends_between_two_requests(self):
        for _ in range(5):
            process = self.launch(settings.tarn, "profile", "--paused", "-q", "-o", "x.prof", "--", sys.executable, "-c",
                                  "import time; time.sleep(0.8)", stdout=subprocess.DEVNULL)
            while not children_of(process.pid):
                time.sleep(0.01)
            child = self.child_of(process)
            words = ["attach", child], ["attach", "--stop", child]
            while all(self.execute(settings.tarn, *each).returncode == 0 for each in words):
                pass
            self.assertEqual(process.wait(timeout=10), 0)
