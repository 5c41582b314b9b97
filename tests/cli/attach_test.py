# SPDX-License-Identifier: MIT
"""End-to-end: `tarn attach`, `detach`, `dump` and `profile --paused` on a program that does what the test says."""
import glob
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

from cost_test import NOBODY
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
        child = self.read(f"/proc/{target.pid}/task/{target.pid}/children").split()[0]
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


class attach_safely(AttachBase):
    """Attach and detach at bad moments: the program must go on, and tarn must answer signals."""
    ROUNDS = 5

    HEAD = """
#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
atomic_int ticks;
static void* sleeper(void* a) { for (;;) pause(); }
static void* loop(void* step) { for (;;) { ((void (*)(void))step)(); ++ticks; } }
"""
    TAIL = """
int main(int count, char** words) {
  signal(SIGSEGV, SIG_IGN);
  pthread_t t;
  pthread_create(&t, 0, sleeper, 0);
  start();
  for (;;) { usleep(5000); char b[16]; int n = snprintf(b, 16, "%d\\n", ticks); if (write(1, b, n) != n) return 1; }
}"""

    def start(self, code):
        program = self.compile("main", self.HEAD + code + self.TAIL, "-w", "-O1", "-rdynamic", "-pthread", language="c")
        process = self.launch(program, stdout=subprocess.PIPE, text=False)
        self.goes_on(process)
        return process

    def goes_on(self, process):
        """Whether its loop and its first thread go on. Reads what it has written meanwhile."""
        os.set_blocking(process.stdout.fileno(), False)
        seen = set()
        text = ""
        end = time.monotonic() + 10
        while len(seen) < 3 and time.monotonic() < end:
            time.sleep(0.01)
            text += (process.stdout.read() or b"").decode()
            text = text[-4096:]
            seen.update(text.split("\n")[1:-1])
            if process.poll() is not None:
                self.fail(f"the process has ended with {process.returncode}")
        self.assertGreaterEqual(len(seen), 3, "the process stands still")
        process.stdout.read()

    def attach_often(self, code, codes=(0,)):
        process = self.start(code)
        for _ in range(self.ROUNDS):
            tarn = self.attach(process.pid, "--for", "0.02", "--no-events", mode="sample")
            said = tarn.communicate(timeout=30)[1]
            self.assertIn(tarn.returncode, codes, said)
            self.goes_on(process)
        return process

    def test_a_constructor_that_waits_for_the_first_thread(self):
        self.compile("plugin.so", """
            #include <stdatomic.h>
            #include <unistd.h>
            extern atomic_int first;
            __attribute__((constructor)) static void begin(void) { int t = first; while (first < t + 4) usleep(500); }""", "-w", "-shared", "-fPIC", language="c")
        # The thread that loads never gives the linker's lock back for long.
        self.attach_often("""
atomic_int first;
static void step(void) { void* h = dlopen("./plugin.so", RTLD_NOW); if (h) dlclose(h); }
static void* tick(void* a) { for (;;) { ++first; usleep(2000); } }
static void start(void) { pthread_t t; pthread_create(&t, 0, tick, 0); pthread_create(&t, 0, loop, step); }""", codes=(0, 125))

    def test_fork_threads_libraries_and_locales(self):
        self.attach_often("""
static void step(void) { pid_t c = fork(); if (c == 0) _exit(0); waitpid(c, 0, 0); }
static void start(void) { memset(malloc(50 << 20), 1, 50 << 20); pthread_t t; pthread_create(&t, 0, loop, step); }""")
        self.attach_often("""
static void* body(void* a) { char b[1 << 16]; memset(b, 1, sizeof b); return b[77] ? a : 0; }
static void step(void) { pthread_t t[4]; for (int k = 0; k < 4; ++k) pthread_create(&t[k], 0, body, 0);
  for (int k = 0; k < 4; ++k) pthread_join(t[k], 0); }
static void start(void) { pthread_t t; pthread_create(&t, 0, loop, step); }""")
        self.attach_often("""
static void load(void) { void* h = dlopen("libm.so.6", RTLD_NOW); dlsym(h, "cos"); dlclose(h); }
static void speak(void) { setlocale(LC_ALL, "C.UTF-8"); setlocale(LC_ALL, "C"); strerror(ticks & 127); }
static void ask(void) { struct addrinfo* a = 0; if (getaddrinfo("127.0.0.1", "80", 0, &a) == 0) freeaddrinfo(a); }
static void start(void) { pthread_t t; pthread_create(&t, 0, loop, load); pthread_create(&t, 0, loop, speak);
  pthread_create(&t, 0, loop, ask); }""")

    def test_a_killed_tarn_leaves_the_process_running(self):
        process = self.start("""
static void step(void) { free(malloc(100)); usleep(100); }
static void start(void) { pthread_t t; pthread_create(&t, 0, loop, step); }""")
        for round_ in range(4 * self.ROUNDS):
            tarn = self.attach(process.pid, mode="sample")
            # The prices are measured first; then come the stops.
            stopped = time.monotonic() + 20
            while "memfd:tarn-session" not in self.descriptors(tarn.pid) and time.monotonic() < stopped and tarn.poll() is None:
                time.sleep(0.002)
            time.sleep(0.002 * round_)
            tarn.kill()
            tarn.wait()
            self.goes_on(process)
        tarn = self.attached(process.pid, mode="sample")
        self.detach(tarn, process.pid)
        self.goes_on(process)

    def descriptors(self, pid):
        try:
            return " ".join(os.readlink(link) for link in glob.glob(f"/proc/{pid}/fd/*"))
        except OSError:
            return ""

    def test_tarn_answers_a_signal_while_it_waits(self):
        process = self.start("""
static void step(void) { static pthread_mutex_t* lock; usleep(1000); }
static void* hold(struct dl_phdr_info* i, size_t n, void* a) { for (;;) pause(); }
extern int dl_iterate_phdr(void*, void*);
static void* holder(void* a) { dl_iterate_phdr(hold, 0); return 0; }
static void start(void) { pthread_t t; pthread_create(&t, 0, loop, step); pthread_create(&t, 0, holder, 0); }""")
        tarn = self.attach(process.pid)
        time.sleep(2)
        begin = time.monotonic()
        tarn.send_signal(signal.SIGINT)
        said = tarn.communicate(timeout=20)[1]
        self.assertLess(time.monotonic() - begin, 5)
        self.assertNotEqual(said, "")
        self.goes_on(process)


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
            while not self.children_of(process):
                time.sleep(0.01)
            child = self.child_of(process)
            words = ["attach", child], ["attach", "--stop", child]
            while all(self.execute(settings.tarn, *each).returncode == 0 for each in words):
                pass
            self.assertEqual(process.wait(timeout=10), 0)

    @staticmethod
    def children_of(process):
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
            return file.read().split()


class refused(AttachBase):
    def refuses(self, pid, *phrases, words=(), code=125):
        result = self.execute(*words, settings.tarn, "attach", str(pid), code=code)
        for phrase in phrases:
            self.assertIn(phrase, result.stderr)

    def start(self, *words, **more):
        return self.launch(*words, stdout=subprocess.DEVNULL, **more)

    def test_a_bad_process_id_or_a_process_without_a_program(self):
        self.refuses("x1", "is not a process id", code=2)
        ended = subprocess.Popen(["true"])
        ended.wait()
        self.refuses(ended.pid, "has ended")
        if os.path.exists("/proc/2/status") and not os.path.exists("/proc/2/exe") and os.geteuid() == 0:
            self.refuses(2, "kernel thread")

    def test_static(self):
        static = self.compile("static", "#include <unistd.h>\nint main() { for (;;) pause(); }", "-static")
        process = self.start(static)
        time.sleep(0.1)
        self.refuses(process.pid, "statically linked", "--mode faults")

    def test_malloc_linked_in(self):
        for hash_style in ("gnu", "sysv"):
            own = self.compile("own_" + hash_style, """
                #include <stddef.h>
                #include <unistd.h>
                extern "C" void* malloc(size_t) { static char room[65536]; return room; }
                int main() { for (;;) pause(); }""", "-rdynamic", "-Wl,--hash-style=" + hash_style)
            process = self.start(own)
            time.sleep(0.1)
            self.refuses(process.pid, "contains its own malloc")

    def test_the_first_thread_has_ended(self):
        ended = self.compile("ended", """
            #include <pthread.h>
            #include <unistd.h>
            void* wait(void*) { for (;;) pause(); }
            int main() { pthread_t other; pthread_create(&other, nullptr, wait, nullptr); pthread_exit(nullptr); }""", "-pthread")
        process = self.start(ended)
        time.sleep(0.1)
        self.refuses(process.pid, "first thread of process", "has ended", "tarn profile")

    @unittest.skipUnless(os.geteuid() == 0, "needs two users")
    def test_a_process_of_several_users(self):
        mixed = self.compile("mixed", f"""
            #include <unistd.h>
            int main() {{ if (setresuid({NOBODY}, {NOBODY}, 0) == 0) for (;;) pause(); }}""")
        process = self.start(mixed)
        time.sleep(0.1)
        self.refuses(process.pid, "rights of several users", "tarn profile")

    @unittest.skipUnless(os.geteuid() == 0, "needs two users")
    def test_another_user(self):
        process = self.start("sleep", "60", user=1)
        self.refuses(process.pid, "belongs to", "sudo -u", words=("setpriv", "--reuid", str(NOBODY), "--clear-groups"))

    def test_recorded_already(self):
        target = Target(self)
        tarn = self.attached(target.pid)
        self.refuses(target.pid, "already being recorded", "tarn attach --dump")
        self.detach(tarn, target.pid)
        self.assertIn("not being recorded", self.tarn("attach", "--stop", str(target.pid), code=125).stderr)

    def test_traced(self):
        target = Target(self)
        tracer = self.launch(sys.executable, "-c", f"""
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace(0x4206, {target.pid}, 0, 0)  # PTRACE_SEIZE
print("traces", flush=True)
time.sleep(60)""", stdout=subprocess.PIPE)
        self.assertEqual(tracer.stdout.readline(), "traces\n")
        self.refuses(target.pid, "already traced", "debugger")

    def test_a_sandbox(self):
        process = self.start(sys.executable, "-c", """
import ctypes, time
libc = ctypes.CDLL(None)
class instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(instruction))]
allow = (instruction * 1)(instruction(6, 0, 0, 0x7fff0000))
libc.prctl(38, 1, 0, 0, 0)
libc.prctl(22, 2, ctypes.byref(program(1, allow)))
time.sleep(60)""")
        time.sleep(0.5)
        self.refuses(process.pid, "sandbox", "tarn profile")

    def test_a_stopped_process(self):
        process = self.start("sleep", "60")
        time.sleep(0.1)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        self.refuses(process.pid, "is stopped", f"kill -CONT {process.pid}")

    def test_another_container(self):
        if self.execute("unshare", "-m", "true").returncode != 0:
            self.skipTest("no new mount namespace here")
        process = self.start("unshare", "-m", "sleep", "60")
        time.sleep(0.5)
        self.refuses(process.pid, "another container", "nsenter")


class attach_rights(AttachBase):
    """What another user's process, or one of root without rights, gets of the tarn that root starts."""
    SECRET = "s3cr3t-of-root"

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("needs root, which attaches to another user's process")
        os.chmod(self.folder, 0o777)
        recorder = self.path("recorder.so")
        shutil.copy(settings.recorder, recorder)
        self.addCleanup(setattr, settings, "recorder", settings.recorder)
        settings.recorder = recorder

    def environment(self, **more):
        return {**super().environment(**more), "ROOT_TOKEN": self.SECRET}

    def test_no_file_that_the_process_names_is_executed(self):
        proof = self.path("proof")
        evil = self.compile("evil.so", f"""
            #include <fcntl.h>
            #include <stdio.h>
            #include <stddef.h>
            #include <unistd.h>
            extern void* __libc_malloc(size_t);
            extern void __libc_free(void*);
            void* malloc(size_t n) {{ return __libc_malloc(n); }}
            void free(void* p) {{ __libc_free(p); }}
            __attribute__((constructor)) static void run(void) {{
              char text[32];
              int file = open("{proof}", O_WRONLY | O_APPEND | O_CREAT, 0666);
              write(file, text, snprintf(text, sizeof text, "%d\\n", getpid()));
              close(file);
            }}""", "-w", "-shared", "-fPIC", language="c")
        # Each allocator's name chooses from a list of files of this installation.
        for name in ("evil.so", "libjemalloc.so.2", "libtarn.so.1"):
            library = self.path(name)
            if name != "evil.so":
                shutil.copy(evil, library)
            for words in (["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"],
                          ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]):
                target = Target(self, *words, "env", "-i", f"LD_PRELOAD={library}")
                os.unlink(proof)
                tarn = self.attach(target.pid, "--for", "0.1")
                said = tarn.communicate(timeout=30)[1]
                self.assertEqual(tarn.returncode, 0, said)
                self.assertFalse(os.path.exists(proof), (name, words))
                if name == "evil.so" and tarn.returncode == 0:
                    self.assertIn("does not run " + library, said)
                self.assertEqual(target.ask("burst 1 1"), "done")
                target.end()

    def test_a_process_that_has_given_up_roots_rights(self):
        # The kernel then keeps much of it in /proc from its own user.
        target = Target(self)
        self.assertEqual(target.ask(f"become {NOBODY}"), "done")
        tarn = self.attached(target.pid)
        target.ask("burst 2 40")
        self.assertEqual(target.ask("fork 5000"), "3")
        self.detach(tarn, target.pid)
        self.assertEqual(self.count(self.dump(self.recording), "burst_make"), (5080, 5080))
        self.assertEqual(os.stat(self.recording).st_uid, NOBODY)
        target.ask("busy 8")
        for _ in range(5):
            tarn = self.attach(target.pid, "--for", "0.02", "--no-events", mode="sample")
            said = tarn.communicate(timeout=30)[1]
            self.assertEqual(tarn.returncode, 0, said)
        self.assertEqual(target.ask("calm"), "0")

    def test_what_belongs_to_the_user_has_nothing_of_roots(self):
        target = Target(self, user=NOBODY, group=NOBODY, extra_groups=())
        with open(self.path("secret"), "w+", encoding="utf-8") as secret:
            os.set_inheritable(secret.fileno(), True)
            tarn = self.launch(settings.tarn, "attach", "-o", "x.prof", str(target.pid), stdin=secret, stdout=secret,
                               stderr=subprocess.PIPE, close_fds=False)
            found = 0
            is_recording = False
            while not is_recording:
                # From its start on: what measures the prices, what looks for a safe point, what holds the descriptors.
                is_recording = bool(select.select([tarn.stderr], [], [], 0.001)[0])
                found += self.look_as_user(tarn.pid, secret.name)
            self.assertIn("recording process", tarn.stderr.readline())
            found += self.look_as_user(tarn.pid, secret.name)
            self.assertGreater(found, 0)
            tarn.send_signal(signal.SIGINT)
            self.assertEqual(tarn.wait(timeout=30), 0)

    def look_as_user(self, tarn, secret):
        """The number of tarn's children that the user may look into."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            seen = []
            for one in [tarn, *children_of(tarn)]:
                try:
                    text = self.read(f"/proc/{one}/environ")
                    seen.append([one, os.getsid(one), text,
                                 [os.readlink(link) for link in glob.glob(f"/proc/{one}/fd/*")]])
                except OSError:
                    pass
            os.write(write, json.dumps(seen).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as file:
            seen = json.loads(file.read())
        os.waitpid(child, 0)
        for one, session, text, descriptors in seen:
            self.assertEqual(text, "", "its environment")
            self.assertEqual(session, one, "it has no terminal")
            self.assertNotIn(secret, descriptors)
            self.assertLessEqual(len([name for name in descriptors if name != "/dev/null"]), 2, descriptors)
        return len(seen)


def children_of(process):
    try:
        with open(f"/proc/{process}/task/{process}/children", encoding="utf-8") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


class servers(AttachBase):
    @unittest.skipUnless(os.geteuid() == 0, "needs two users")
    def test_root_records_another_users_process(self):
        # Copies in a folder that the other user can reach.
        for name, path in (("target", settings.attach_target), ("recorder.so", settings.recorder)):
            shutil.copy(path, self.path(name))
        os.chmod(self.folder, 0o777)
        settings_recorder, settings_target = settings.recorder, settings.attach_target
        settings.recorder = self.path("recorder.so")
        settings.attach_target = self.path("target")
        try:
            target = Target(self, user=NOBODY, group=NOBODY, extra_groups=())
            tarn = self.attached(target.pid)
            target.ask("burst 2 40")
            self.detach(tarn, target.pid)
        finally:
            settings.recorder, settings.attach_target = settings_recorder, settings_target
        self.assertEqual(self.count(self.dump(self.recording), "burst_make"), (80, 80))
        self.assertEqual(os.stat(self.recording).st_uid, NOBODY)


    def test_a_python_loop(self):
        process = self.launch(sys.executable, "-u", "-c", """
total = 0
while True:
    rows = [bytearray(1000 + index) for index in range(100)]
    total += sum(len(row) for row in rows)
    print(total)""", stdout=subprocess.PIPE)
        tarn = self.attach(process.pid, "--for", "0.5")
        rounds = 0
        while tarn.poll() is None:
            rounds += 1
            self.assertEqual(int(process.stdout.readline()), rounds * 104950)
        known = self.finished(tarn)
        self.assertGreater(sum(site["figures"].get("allocations", 0) for site in known["sites"]), 100)
        self.assertIsNone(process.poll())

    def test_redis_under_load(self):
        if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
            self.skipTest("redis is not installed")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        server = self.launch("redis-server", "--port", port, "--save", "", "--appendonly", "no", "--bind", "127.0.0.1",
                             stdout=subprocess.DEVNULL)
        for _ in range(100):
            if self.execute("redis-cli", "-p", port, "ping").returncode == 0:
                break
            time.sleep(0.05)
        load = self.launch("redis-benchmark", "-p", port, "-n", "60000", "-c", "20", "-t", "set,lpush", "--csv", stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
        time.sleep(0.2)
        tarn = self.attach(server.pid, "--for", "0.6", "--no-events")
        output, errors = load.communicate(timeout=100)
        self.assertEqual(load.returncode, 0, errors)
        self.assertEqual(errors, "")
        self.assertIn('"LPUSH"', output)
        known = self.finished(tarn)
        self.assertEqual(known["lost_events"], 0)
        self.assertGreater(sum(site["figures"].get("allocations", 0) for site in known["sites"]), 1000)
        self.assertIsNone(server.poll())
