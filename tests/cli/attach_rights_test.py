# SPDX-License-Identifier: MIT
"""End-to-end: which processes `tarn attach` refuses, and what another user gets of the tarn that root starts."""
import glob
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import unittest

from attach_test import AttachBase, Target, children_of
from cost_test import NOBODY
from harness import settings


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
        self.refuses(process.pid, "belongs to", "sudo -u", f" {settings.tarn} attach {process.pid}", words=("setpriv", "--reuid", str(NOBODY), "--clear-groups"))

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

    def test_root_records_another_users_process(self):
        own = shutil.copy(settings.attach_target, self.path("target"))  # where the other user can reach it
        self.addCleanup(setattr, settings, "attach_target", settings.attach_target)
        settings.attach_target = own
        target = Target(self, user=NOBODY, group=NOBODY, extra_groups=())
        tarn = self.attached(target.pid)
        target.ask("burst 2 40")
        self.detach(tarn, target.pid)
        self.assertEqual(self.count(self.dump(self.recording), "burst_make"), (80, 80))
        self.assertEqual(os.stat(self.recording).st_uid, NOBODY)

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
