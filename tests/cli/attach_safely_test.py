# SPDX-License-Identifier: MIT
"""End-to-end: `tarn attach` at bad moments, and on programs under load."""
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from attach_test import AttachBase


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


class servers(AttachBase):
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
