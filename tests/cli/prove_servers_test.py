# SPDX-License-Identifier: MIT
"""End-to-end: `tarn prove` of servers, which work while a load does."""
import os
import socket
import subprocess
import sys
import time

from harness import environment, settings, tarn
from prove_test import ProveBase

SERVER = """
import signal, socket, sys
data = []
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
def end(*_):
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
while True:
    peer, _ = listener.accept()
    if peer.recv(16) == b"work":
        data.append(bytearray(4 << 20))
    peer.close()
"""

# Each piece of work takes a child 0.1 s of processor time.
FORKING_SERVER = """
import os, signal, socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    peer, _ = listener.accept()
    if peer.recv(16) == b"work" and os.fork() == 0:
        while time.process_time() < 0.1: pass
        peer.close()
        os._exit(0)
    peer.close()
"""

# A worker that is there from the start computes: a child, which outlives the server unless END_WORKERS is set, or a thread.
EARLY_SERVER = """
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
static int port;
static double seconds() { timespec now; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); return now.tv_sec + 1e-9 * now.tv_nsec; }
static void end(int) { _exit(0); }
static void* work(void*) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, (sockaddr*)&address, sizeof address) != 0 || listen(listener, 50) != 0) _exit(5);
  for (;;) {
    const int peer = accept(listener, nullptr, nullptr);
    char letters[16];
    if (read(peer, letters, sizeof letters) > 0)
      for (const double until = seconds() + 0.02; seconds() < until;) free(malloc(3000));
    close(peer);
  }
}
int main(int, char** words) {
  port = atoi(words[1]);
  pthread_t thread;
  if (words[2][0] == 't') {
    pthread_create(&thread, nullptr, work, nullptr);
  } else if (fork() == 0) {
    if (getenv("END_WORKERS")) prctl(PR_SET_PDEATHSIG, SIGKILL);
    work(nullptr);
  }
  signal(SIGTERM, end);
  for (;;) pause();
}
"""

LOAD = """
import socket, sys
for _ in range(3):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as peer:
        peer.send(b"work")
        peer.recv(1)
"""


class prove_servers(ProveBase):
    def free_port(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            return str(taken.getsockname()[1])

    def record_server(self, words, port, **variables):
        recorder = subprocess.Popen([settings.tarn, "profile", "-q", "-o", self.path("p.prof"), "--", *words],
                                    env=environment(**variables), stdin=subprocess.DEVNULL)
        self.wait_for(port)
        recorder.terminate()  # reaches the server
        self.assertEqual(recorder.wait(30), 0)

    def wait_for(self, port):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", int(port))).close()
                return
            except OSError:
                time.sleep(0.05)
        self.fail("the server does not listen")

    def test_a_server_that_waits_for_no_child(self):
        server = self.write("server.py", FORKING_SERVER)
        load = self.write("load.py", LOAD)
        port = self.free_port()
        self.record_server([sys.executable, server, port], port)
        proof = self.prove("--rounds", "1", "--only", "keep-memory", "--load", f"{sys.executable} {load} {port}", "--ready-port",
                           port)
        self.assertGreater(proof["ways"][0]["figures"]["cpu_time"]["before"], 3 * 0.1)

    def test_a_server_s_early_workers_are_counted_and_end_with_it(self):
        server = self.compile("early", EARLY_SERVER, "-O2", "-g", "-pthread")
        load = self.write("load.py", LOAD)
        for kind in ("child", "thread"):
            port = self.free_port()
            self.record_server([server, port, kind], port, END_WORKERS="1")
            for _ in range(2):  # a worker that is left behind answers in place of the next server
                proof = self.prove("--rounds", "1", "--only", "keep-memory", "--load", f"{sys.executable} {load} {port}",
                                   "--ready-port", port)
                self.assertGreater(proof["ways"][0]["figures"]["cpu_time"]["before"], 3 * 0.02)

    def test_what_a_load_leaves_in_the_background_is_ended_and_a_load_without_work_is_no_measurement(self):
        port = self.free_port()
        server, load = self.write("server.py", SERVER), f"{sys.executable} {self.write('load.py', LOAD)}"
        self.record_server([sys.executable, server, port], port)
        options = ("--rounds", "1", "--only", "keep-memory", "--ready-port", port)
        self.prove(*options, "--load", f"{load} {port}; sleep 300 & echo $! >>{self.path('left')}")
        with open(self.path("left"), encoding="utf-8") as file:
            for process in file.read().split():
                self.assertFalse(self.runs(process), process)
        result = tarn("prove", *options, "--load", f"(sleep 2; {load} {port}) &", self.path("p.prof"))
        self.assert_refused(result, 3, "took no CPU time during the load", "in the background")

    def test_what_a_server_or_its_load_did_not_do_within_the_limit_is_reported(self):
        port, other = self.free_port(), self.free_port()
        server = self.write("server.py", SERVER)
        self.record_server([sys.executable, server, port], port)
        for told, *options in ((f"the server was not ready at port {other} after ", "--load", "true", "--ready-port", other),
                               ("'exit 4' did not succeed", "--load", "true", "--ready-command", "exit 4"),
                               ("the load was still running after", "--load", "sleep 60", "--ready-port", port)):
            result = tarn("prove", "--for", "4", "--only", "keep-memory", *options, self.path("p.prof"))
            self.assert_refused(result, 125, "no round was complete", told, "--ready-port", "--for")

    def test_a_server_under_a_load(self):
        port = self.free_port()
        server = self.write("server.py", SERVER)
        load = self.write("load.py", LOAD)
        self.record_server([sys.executable, server, port], port)
        options = ("--rounds", "1", "--only", "keep-memory", "--ready-port", port)
        proof = self.prove(*options, "--load", f"{sys.executable} {load} {port} && echo x >>{self.path('loads')}")
        self.assertIn("load.py", proof["load"])
        self.assertEqual(os.path.getsize(self.path("loads")) // 2, 4, "each of the two runs warms up by a load before it")
        figures = self.ways(proof)["keep-memory"]["figures"]
        self.assertGreater(figures["peak_rss"]["before"], 20 << 20)  # the server's memory, not the load's
        self.assertGreater(figures["wall_time"]["before"], 0)
        failing = tarn("prove", *options, "--load", "exit 3", self.path("p.prof"), code=3)
        self.assertIn("the load failed: exit status 3", failing.stderr)
        with socket.create_server(("127.0.0.1", int(port))):
            taken = tarn("prove", *options, "--load", "true", self.path("p.prof"))
            self.assertIn("another process already answers", taken.stderr)
        never = tarn("prove", "--rounds", "1", "--only", "keep-memory", "--timeout", "1", "--load", "sleep 60", "--ready-port",
                     port, self.path("p.prof"))
        self.assertIn("still running", never.stderr)

    def test_a_server_is_recorded_and_proven_under_its_load(self):
        port = self.free_port()
        server, load = self.write("server.py", SERVER), self.write("load.py", LOAD)

        def profile(command, *options):
            return self.execute(settings.tarn, "profile", "--prove", "-o", self.path("p.prof"), "--load", command, *options,
                                "--", sys.executable, server, port, timeout=200)
        result = profile(f"{sys.executable} {load} {port} && echo x >>{self.path('loads')}", "--ready-port", port)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("at most 1", result.stderr)
        self.assertIn("Verdict", result.stderr)
        self.assertGreater(os.path.getsize(self.path("loads")) // 2, 4)
        self.assert_refused(tarn("prove", self.path("p.prof")), 125, "under a load", "--load")
        failing = profile("exit 3", "--ready-command", "true")
        self.assertEqual(failing.returncode, 125, failing.stderr)
        self.assertIn("the load failed: exit status 3", failing.stderr)
        self.assert_refused(profile("true"), 125, "--ready-port")
        with socket.create_server(("127.0.0.1", int(port))):
            self.assertIn("another process already answers", profile("true", "--ready-port", port).stderr)
