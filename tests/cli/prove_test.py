# SPDX-License-Identifier: MIT
"""End-to-end: `tarn prove` and `tarn profile --prove`, which repeat a program in ways that change no code."""
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import time

from harness import Base, environment, settings, tarn

# Maps and unmaps 32 MiB in each round: glibc's tunables save most of the page faults.
BUFFERS = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
int main(int count, char** words) {
  const int rounds = count > 1 ? std::atoi(words[1]) : 8;
  char letters[64] = {};
  if (read(0, letters, sizeof letters - 1) < 0) return 4;
  if (const char* wanted = std::getenv("WANTED_INPUT"); wanted != nullptr && std::strcmp(wanted, letters) != 0) return 5;
  if (const char* flag = std::getenv("FAIL_IF_THERE"); flag != nullptr && access(flag, F_OK) == 0) return 6;
  if (const char* path = std::getenv("COUNT_RUNS"); path != nullptr) {
    std::FILE* file = std::fopen(path, "a");
    std::fputs("x", file);
    std::fclose(file);
  }
  for (int round = 0; round < rounds; ++round) {
    char* bytes = new char[33554432];
    std::memset(bytes, round, 33554432);
    asm volatile("" : : "r"(bytes) : "memory");
    delete[] bytes;
  }
  std::puts("end");
}
"""

ARITHMETIC = """
#include <cstdio>
int main() { unsigned long x = 1; for (long i = 0; i < 20000000; ++i) x = x * 6364136223846793005ul + 1; std::printf("%lu\\n", x); }
"""

NODES = """
#include <cstdio>
struct node { long values[8]; node* next; };
__attribute__((noinline)) node* make(node* next) { node* one = new node; one->next = next; one->values[0] = 1; return one; }
int main() {
  long sum = 0;
  for (int round = 0; round < 400; ++round) {
    node* list = nullptr;
    for (int i = 0; i < 500; ++i) list = make(list);
    while (list) { node* next = list->next; sum += list->values[0]; delete list; list = next; }
  }
  std::printf("%ld\\n", sum);
}
"""

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
for _ in range(5):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as peer:
        peer.send(b"work")
        peer.recv(1)
"""


# Goes on in a session of its own; without "daemon", for a moment only.
GOES_ON = r"""
#include <stdio.h>
#include <unistd.h>
int main(int count, char** words) {
  if (fork() != 0) _exit(0);
  setsid();
  if (words[1][0] != 'd') return usleep(100000);
  if (FILE* ids = count > 2 ? fopen(words[2], "a") : nullptr) fprintf(ids, "%d\n", getpid()), fclose(ids);
  sleep(60);
}
"""

# Without any libc.
BARE = r"""
#if defined(__x86_64__)
extern "C" void _start() { asm volatile("syscall" : : "a"(231), "D"(0)); __builtin_unreachable(); }
#else
extern "C" void _start() { register long number asm("x8") = 94; register long status asm("x0") = 0;
  asm volatile("svc 0" : : "r"(number), "r"(status)); __builtin_unreachable(); }
#endif
"""

MANY_PLACES = ("#include <cstdlib>\nvoid* volatile kept;\ntemplate <int N> void place() { kept = malloc(16); free(kept); "
               "if constexpr (N % 2 == 0) place<N + 1>(); }\nint main() {\n"
               + "".join(f"  place<{2 * number}>();\n" for number in range(3000)) + "}\n")


class prove(Base):
    def path(self, name):
        return os.path.join(self.folder, name)

    def record(self, words, *options, stdin=subprocess.DEVNULL, status=0, **variables):
        result = subprocess.run([settings.tarn, "profile", "-q", *options, "-o", self.path("p.prof"), "--", *words],
                                env=environment(**variables), stdin=stdin, capture_output=True, text=True, timeout=60,
                                check=False, cwd=self.folder)
        self.assertEqual(result.returncode, status, result.stderr)
        return self.path("p.prof")

    def prove(self, *options, status=0, **variables):
        result = tarn("prove", "--json", *options, self.path("p.prof"), variables=variables)
        self.assertEqual(result.returncode, status, result.stderr + result.stdout)
        return json.loads(result.stdout)

    def free_port(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            return str(taken.getsockname()[1])

    def record_server(self, words, port, **variables):
        recorder = subprocess.Popen([settings.tarn, "profile", "-q", "-o", self.path("p.prof"), "--", *words],
                                    env=environment(**variables), stdin=subprocess.DEVNULL)
        self.wait_for(port)
        recorder.terminate()  # reaches the server
        self.assertEqual(recorder.wait(30), 0)

    def runs(self, process):
        try:
            with open(f"/proc/{process}/stat", encoding="utf-8") as file:
                return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def ways(self, proof):
        return {way["name"]: way for way in proof["ways"]}

    def test_work_that_is_done_once_is_noted(self):
        script = self.write("once", "#!/bin/sh\ntest -e done || sleep 1\n: >done\n")
        self.record([script])
        proof = self.prove("--rounds", "1", "--only", "keep-memory")
        self.assertTrue(any("may not do the same work" in note for note in proof["notes"]), proof["notes"])

    def test_tunables_are_proven_and_the_advice_says_so(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        self.record([program])
        before = json.loads(tarn("advise", "--json", self.path("p.prof")).stdout)["advice"][0]
        self.assertEqual((before["kind"], before["grade"]), ("tunable", "counted"))
        proof = self.prove("--rounds", "3", "--only", "keep-memory,tarn")
        self.assertEqual(proof["rounds"], 3)
        self.assertEqual(set(self.ways(proof)), {"keep-memory", "tarn"})
        keep = self.ways(proof)["keep-memory"]["figures"]
        self.assertEqual(keep["page_faults"]["outcome"], "less")
        self.assertLess(keep["page_faults"]["ratio"], 0.4)
        self.assertLess(keep["cpu_time"]["high"], 1)
        self.assertEqual(len(proof["runs"]), 3)
        for run in proof["runs"]:
            self.assertEqual(len(run["metrics"]["cpu_seconds"]["runs"]), 3)
        # The profile now holds the proof, and its other tables are still there.
        after = json.loads(tarn("advise", "--json", self.path("p.prof")).stdout)["advice"]
        top = next(one for one in after if one["variables"] == before["variables"])
        self.assertEqual(top["grade"], "measured", top)
        expected = 1e9 * keep["cpu_time"]["before"] * (1 - keep["cpu_time"]["ratio"])
        self.assertAlmostEqual(top["saving_ns"], expected, delta=1)
        self.assertTrue(any("tarn prove" in line for line in top["evidence"]))
        self.assertIn("CPU time; measured", tarn("advise", self.path("p.prof")).stdout)
        page = self.path("p.html")
        self.assertEqual(tarn("report", "-o", page, self.path("p.prof")).returncode, 0)
        with open(page, encoding="utf-8") as file:
            self.assertIn("CPU time; measured", file.read())

    def test_a_program_that_fails_now_is_told(self):
        script = self.write("once", "#!/bin/sh\ntest -e done && exit 1\n: >done\n")
        self.record([script])
        self.assert_refused(tarn("prove", self.path("p.prof")), 3, "when it was recorded, but now: exit status 1")

    def test_where_nothing_gains_it_says_so(self):
        self.record([self.compile("arithmetic", ARITHMETIC, "-O2", "-g")])
        result = tarn("prove", "--rounds", "1", "--only", "keep-memory", self.path("p.prof"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Verdict: undecided", result.stdout)
        self.assertIn("Undecided after 1 round: keep-memory", result.stdout)

    def test_what_the_profile_excludes_is_not_run(self):
        program = self.compile("long", ARITHMETIC.replace("20000000", "1000000000"), "-O2", "-g")
        for _ in range(5):  # while others have the processors, the program seems to wait for something
            self.record([program])
            result = tarn("prove", self.path("p.prof"))
            if "nothing to measure" in result.stdout:
                break
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("there is nothing to measure", result.stdout)
        self.assertIn("another malloc could save no more", result.stderr)
        self.assertEqual(json.loads(tarn("prove", "--json", self.path("p.prof")).stdout)["ways"], [])

    def test_rounds_end_when_the_ways_are_decided_and_the_limit_is_told_first(self):
        self.record([self.compile("buffers", BUFFERS, "-O2", "-g"), "16"])
        result = tarn("prove", "--only", "keep-memory", "--for", "120", self.path("p.prof"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("measures 1 way (keep-memory) against the unchanged program: at most 120 s", result.stderr)
        self.assertIn("Verdict: keep-memory saves", result.stdout)
        stored = json.loads(tarn("prove", "--json", "--no-keep", "--rounds", "1", "--only", "keep-memory", self.path("p.prof")).stdout)
        self.assertEqual((stored["rounds"], stored["ways"][0]["decision"], stored["ways"][0]["rounds"]), (1, "undecided", 1))
        proof = self.prove("--only", "keep-memory", "--for", "120")
        way = proof["ways"][0]
        self.assertEqual(way["decision"], "saves")
        self.assertEqual(way["figures"]["cpu_time"]["confidence"], 0.95)
        self.assertEqual(way["rounds"], proof["rounds"])
        self.assertLess(proof["seconds"], 120)
        self.assertEqual(proof["limit_seconds"], 120)

    def test_another_build(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        other = self.compile("other build", BUFFERS.replace("33554432", "16777216"), "-O2", "-g")
        self.record([program, "16"])
        for build in (other, f"'{other}' 16"):
            proof = self.prove("--with-build", build, "--for", "120")
            self.assertEqual([way["name"] for way in proof["ways"]], ["build"])
            way = proof["ways"][0]
            self.assertEqual((way["kind"], way["decision"]), ("build", "saves"))
            self.assertLess(way["figures"]["page_faults"]["ratio"], 0.7)
        proof = self.prove("--with-build", f"{program} 32", "--rounds", "3")
        self.assertEqual(proof["ways"][0]["decision"], "costs")
        self.assert_refused(tarn("prove", "--with-build", self.path("none"), self.path("p.prof")), 127, "none")
        for text in ("a | b", "", " "):
            self.assert_refused(tarn("prove", "--with-build", text, self.path("p.prof")), 2, "not a command line")
        self.assert_refused(tarn("prove", "--with-build", program, self.path("p.prof")), 125, "byte for byte")
        notes = self.prove("--with-build", shutil.which("true"), "--rounds", "1")["notes"]
        self.assertTrue(any("true is run in place of buffers" in note for note in notes), notes)
        self.assert_refused(tarn("prove", "--with-build", self.path("p.prof"), self.path("p.prof")), 126, "p.prof")

    def test_a_program_that_fails_at_times_is_not_the_fault_of_a_way(self):
        script = self.write("flaky", "#!/bin/sh\nread runs <runs\necho $((runs + 1)) >runs\ntest $runs -ne 2\n")
        self.write("runs", "0\n")
        self.record([script])
        for warm_up in (0, 1):  # the first or the second run after it fails
            self.write("runs", f"{warm_up}\n")
            proof = self.prove("--rounds", "3", "--only", "keep-memory")
            self.assertEqual(proof["ways"][0].get("failure", ""), "")
            self.assertTrue(any("fails at times" in note for note in proof["notes"]), proof["notes"])
        often = self.write("often", "#!/bin/sh\ntest -z \"$GLIBC_TUNABLES\" || exit 3\nread runs <runs\necho $((runs + 1)) >runs\n"
                                    "test $runs -ne 3\n")
        self.write("runs", "0\n")
        self.record([often])
        way = self.prove("--rounds", "1", "--only", "keep-memory", status=1)["ways"][0]
        self.assertIn("exit status 3; the program fails without the change, too", way["failure"])

    def test_a_malloc_is_named_from_the_user_s_folder(self):
        self.record([self.compile("buffers", BUFFERS, "-O2", "-g"), "4"])
        proof = self.prove("--rounds", "1", "--malloc", "mine=" + os.path.relpath(settings.library), "--only", "mine")
        self.assertEqual([way["name"] for way in proof["ways"]], ["mine"])

    def test_a_server_that_waits_for_no_child(self):
        server = self.write("server.py", FORKING_SERVER)
        load = self.write("load.py", LOAD)
        port = self.free_port()
        self.record_server([sys.executable, server, port], port)
        proof = self.prove("--rounds", "1", "--only", "keep-memory", "--load", f"{sys.executable} {load} {port}", "--ready-port",
                           port)
        self.assertGreater(proof["ways"][0]["figures"]["cpu_time"]["before"], 5 * 0.1)

    def test_a_server_s_early_workers_are_counted_and_end_with_it(self):
        server = self.compile("early", EARLY_SERVER, "-O2", "-g", "-pthread")
        load = self.write("load.py", LOAD)
        for kind in ("child", "thread"):
            port = self.free_port()
            self.record_server([server, port, kind], port, END_WORKERS="1")
            for _ in range(3):  # a worker that is left behind answers in place of the next server
                proof = self.prove("--rounds", "1", "--only", "keep-memory", "--load", f"{sys.executable} {load} {port}",
                                   "--ready-port", port)
                self.assertGreater(proof["ways"][0]["figures"]["cpu_time"]["before"], 5 * 0.02)

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

    def test_what_a_server_or_its_load_did_not_do_within_the_limit_is_told(self):
        port, other = self.free_port(), self.free_port()
        server = self.write("server.py", SERVER)
        self.record_server([sys.executable, server, port], port)
        for told, *options in ((f"the server was not ready at port {other} after ", "--load", "true", "--ready-port", other),
                               ("'exit 4' did not succeed", "--load", "true", "--ready-command", "exit 4"),
                               ("the load was still running after", "--load", "sleep 60", "--ready-port", port)):
            result = tarn("prove", "--for", "2", "--only", "keep-memory", *options, self.path("p.prof"))
            self.assert_refused(result, 125, "no round was complete", told, "--ready-port", "--for")

    def test_a_program_that_begins_to_fail_keeps_its_rounds(self):
        script = self.write("often", "#!/bin/sh\nread runs <runs\necho $((runs + 1)) >runs\ntest $runs -lt 7\n")
        self.write("runs", "0\n")
        self.record([script])
        self.write("runs", "0\n")
        proof = self.prove("--rounds", "5", "--only", "keep-memory", status=3)  # the warm-up, and 3 rounds of 2 runs
        self.assertEqual((proof["rounds"], proof["ways"][0]["rounds"], proof["ways"][0]["failure"]), (3, 3, ""))
        self.assertTrue(any("began to fail in round 4: exit status 1" in note and "3 rounds before" in note
                            for note in proof["notes"]), proof["notes"])

    def test_what_goes_on_in_the_background_is_ended_and_refused(self):
        daemon = self.compile("goes on", GOES_ON)
        self.record([self.write("start", f"#!/bin/sh\ntest -e done && exec '{daemon}' daemon\n: >done\n")])
        self.assert_refused(tarn("prove", "--only", "keep-memory", self.path("p.prof")), 125, "in the background: goes on",
                            "foreground", "--load")
        result = tarn("compare", "-r", "3", "-w", "0", "--touch", "0", "--only", "system", "--", daemon, "daemon", self.path("ids"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("in the background"), 1, result.stderr)
        with open(self.path("ids"), encoding="utf-8") as file:
            left = file.read().split()
        self.assertEqual(len(left), 3, left)
        self.assertFalse([process for process in left if self.runs(process)])
        self.record([daemon, "helper"])  # a child that ends by itself a moment later
        self.assertEqual(self.prove("--only", "keep-memory", "--rounds", "1")["rounds"], 1)

    def test_tunables_are_of_glibc_also_where_it_is_static(self):
        bare = self.compile("bare", BARE, "-O2", "-static", "-nostdlib", "-nostartfiles", "-fno-stack-protector")
        static = self.compile("static", BUFFERS, "-O2", "-static")
        for program, ways in ((bare, []), (static, ["keep-memory"])):
            self.record([program], "--mode", "faults")
            proof = self.prove("--rounds", "1", *(["--only", "keep-memory"] if ways else []))
            self.assertEqual([way["name"] for way in proof["ways"]], ways, proof["notes"])
            self.assertEqual(any("not glibc's" in note for note in proof["notes"]), not ways, proof["notes"])

    def test_a_program_that_is_slower_now_has_one_round(self):
        script = self.write("slower", "#!/bin/sh\ntest -e done && sleep 2\n: >done\n")
        self.record([script])
        proof = self.prove("--only", "keep-memory,tarn")
        self.assertGreaterEqual(proof["rounds"], 1)
        self.assertGreaterEqual(proof["limit_seconds"], 10)
        fails = subprocess.run([settings.tarn, "profile", "--prove", "-o", self.path("q.prof"), "--", "sh", "-c",
                                f"test -e {self.path('once')} && exit 4; : >{self.path('once')}; sleep 0.3"], env=environment(),
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("nothing could be measured", fails.stderr)
        background = subprocess.run([settings.tarn, "profile", "--prove", "-o", self.path("q.prof"), "--", "sh", "-c",
                                     "sleep 20 & exec sleep 0.3"], env=environment(), stdin=subprocess.DEVNULL, capture_output=True,
                                    text=True, timeout=60, check=False)
        self.assertIn("in the background", background.stderr)
        self.assertIn("option for the foreground", background.stderr)

    def test_a_peak_is_the_program_s_own(self):
        # A recording of many places of allocation, each a call path: more memory than the program itself takes.
        program = self.compile("places", MANY_PLACES, "-O0", "-g")
        self.record([program], "--mode", "full")
        proof = self.prove("--rounds", "1", "--only", "keep-memory")
        self.assertLess(proof["ways"][0]["figures"]["peak_rss"]["before"], 5 << 20)
        self.record([self.compile("nothing", "int main() {}", "-O2")])
        proof = self.prove("--rounds", "3", "--only", "keep-memory")
        self.assertEqual(proof["ways"][0]["figures"]["peak_rss"]["confidence"], 0)
        self.assertTrue(any("a peak RSS below" in note for note in proof["notes"]), proof["notes"])

    def test_pools_with_and_without_the_layer(self):
        self.record([self.compile("nodes", NODES, "-O2", "-g")], "--mode", "full")
        proof = self.prove("--rounds", "3", "--only", "pool-1")
        ways = self.ways(proof)
        self.assertEqual(set(ways), {"tarn", "pool-1", "layer"})
        for way in ways.values():
            self.assertEqual(way["failure"], "")
        self.assertEqual(ways["pool-1"]["kind"], "typed pool")
        runs = {one["name"]: one["metrics"]["cpu_seconds"]["median"] for one in proof["runs"]}
        pool = ways["pool-1"]
        self.assertAlmostEqual(pool["layered_ratio"] * pool["figures"]["cpu_time"]["before"], runs["pool-1"], delta=1e-6)
        self.assertGreaterEqual(pool["layer_seconds"], 0)
        self.assertTrue(any("layer for pools" in line for line in proof["verdict"]), proof["verdict"])

    def test_arguments_folder_input_and_variables_are_as_they_were(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        with open(self.path("in.txt"), "w", encoding="utf-8") as file:
            file.write("first\nsecond\n")
        here = self.path("here")
        os.mkdir(here)
        script = self.write("run.sh", f'#!/bin/sh\n[ "$(pwd)" = "{self.folder}" ] && [ "$1" = "a b\nc" ] || exit 8\n'
                            f'[ "$MALLOC_ARENA_TEST" = 3 ] || exit 9\nexec {program} 2\n')
        with open(self.path("in.txt"), encoding="utf-8") as file:
            os.lseek(file.fileno(), len("first\n"), os.SEEK_SET)
            self.record([script, "a b\nc"], stdin=file, WANTED_INPUT="second\n", MALLOC_ARENA_TEST="3")
        proof = self.prove("--rounds", "1", "--only", "keep-memory", WANTED_INPUT="second\n")
        self.assertEqual(proof["command"], [script, "a b\nc"])
        self.assertEqual(proof["notes"], [])
        # Variables whose values the recording does not keep have their present values in the repeats.
        changed = tarn("prove", "--rounds", "1", "--only", "keep-memory", self.path("p.prof"),
                       variables={"WANTED_INPUT": "other"})
        self.assertEqual(changed.returncode, 3, changed.stderr)
        self.assertIn("exit status 5", changed.stderr)
        with open(self.path("in.txt"), "a", encoding="utf-8") as file:
            file.write("third\n")
        self.assert_refused(tarn("prove", self.path("p.prof")), 125, "standard input", "has changed", "--stdin")

    def test_a_program_that_cannot_be_repeated_is_refused_with_the_reason(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        self.record(["sh", "-c", "exit 3"], status=3)
        self.assert_refused(tarn("prove", self.path("p.prof")), 125, "status 3")
        self.record(["sh", "-c", "kill -TERM $$"], status=-signal.SIGTERM)
        self.assert_refused(tarn("prove", self.path("p.prof")), 125, "signal 15", "--load")
        self.record([program, "1"], stdin=subprocess.PIPE)
        self.assert_refused(tarn("prove", self.path("p.prof")), 125, "pipe", "--stdin")
        self.prove("--rounds", "1", "--only", "keep-memory", "--stdin", "/dev/null")
        self.assert_refused(tarn("prove", "--only", "keep-memori", "--stdin", "/dev/null", self.path("p.prof")), 2,
                            "keep-memory")
        self.compile("buffers", BUFFERS.replace("33554432", "33554433"), "-O2", "-g")
        self.assert_refused(tarn("prove", "--stdin", "/dev/null", self.path("p.prof")), 125, "has changed since")
        os.remove(program)
        self.assert_refused(tarn("prove", "--stdin", "/dev/null", self.path("p.prof")), 125, "does not exist any more")
        made = self.path("made.prof")
        subprocess.run([settings.make_profile, made], check=True)
        self.assert_refused(tarn("prove", made), 125, "how its program was started")
        self.assert_refused(tarn("prove", self.path("none.prof")), 125, "none.prof")
        self.assert_refused(tarn("prove", "--load", "true", self.path("p.prof")), 2, "--ready-port")

    def test_in_place_of_a_terminal_the_runs_read_nothing(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        leader, follower = pty.openpty()
        try:
            os.write(leader, b"line\n")
            self.record([program, "2"], stdin=follower, WANTED_INPUT="line\n")
            proof = self.prove("--rounds", "1", "--only", "keep-memory", WANTED_INPUT="")
            self.assertTrue(any("terminal" in note and "/dev/null" in note for note in proof["notes"]), proof["notes"])
            early = subprocess.run([settings.tarn, "profile", "--prove", "-o", self.path("p.prof"), "--", program, "2"],
                                   env=environment(COUNT_RUNS=self.path("runs")), stdin=self.with_line(leader, follower),
                                   capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(early.returncode, 0, early.stderr)
            self.assertIn("was a terminal", early.stderr)
            self.assertGreater(os.path.getsize(self.path("runs")), 3)
        finally:
            os.close(leader)
            os.close(follower)

    def with_line(self, leader, follower):
        os.write(leader, b"line\n")
        return follower

    def test_another_exit_status_is_reported(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        flag = self.path("flag")
        self.record([program, "1"], FAIL_IF_THERE=flag)
        self.write("flag", "")
        self.assert_refused(tarn("prove", "--rounds", "1", self.path("p.prof"), variables={"FAIL_IF_THERE": flag}), 3,
                            "status 0 when it was recorded", "exit status 6")

    def test_a_child_has_no_command(self):
        self.record([settings.profile_target, "large-child"], "--mode", "full", status=7)
        children = [name for name in os.listdir(self.folder) if name.startswith("p-")]
        self.assertEqual(len(children), 1, children)
        self.assert_refused(tarn("prove", self.path(children[0])), 125, "how its program was started")

    def test_results_go_only_into_a_whole_file(self):
        self.record([self.compile("arithmetic", ARITHMETIC, "-O2", "-g")])
        before = os.path.getsize(self.path("p.prof"))
        self.prove("--rounds", "1", "--only", "keep-memory", "--no-keep")
        self.assertEqual(os.path.getsize(self.path("p.prof")), before)
        with open(self.path("p.prof"), "ab") as file:
            file.write(b"damage")
        self.assert_refused(tarn("prove", "--rounds", "1", "--only", "keep-memory", self.path("p.prof")), 125,
                            "nothing can be added")
        self.prove("--rounds", "1", "--only", "keep-memory", "--no-keep", status=4)  # the profile is damaged

    def test_interrupted_it_keeps_complete_rounds(self):
        runs = self.path("runs")
        self.record([self.compile("buffers", BUFFERS, "-O2", "-g"), "4"], COUNT_RUNS=runs)
        os.remove(runs)
        process = subprocess.Popen([settings.tarn, "prove", "--rounds", "100", "--only", "keep-memory", self.path("p.prof")],
                                   env=environment(COUNT_RUNS=runs), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60  # until 5 runs: the warm-up, a round, and one run of the next
        while time.monotonic() < deadline and not (os.path.exists(runs) and os.path.getsize(runs) >= 5):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)  # timeout(1) sends two
        output, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, -signal.SIGINT, errors)
        self.assertIn("keep-memory", output)
        self.assertIn("interrupted", errors)
        advised = json.loads(tarn("advise", "--json", self.path("p.prof")).stdout)["advice"]
        self.assertTrue(any("tarn prove" in line for one in advised for line in one["evidence"]), advised)

    def test_the_limit_ends_the_rounds(self):
        self.record([self.compile("buffers", BUFFERS, "-O2", "-g"), "4"])
        self.assert_refused(tarn("prove", "--for", "0.01", "--only", "keep-memory", self.path("p.prof")), 125,
                            "no round was complete", "--for")
        for limit in ("3", "40"):  # the second if the machine is too busy for the first
            result = tarn("prove", "--json", "--rounds", "200", "--for", limit, "--only", "keep-memory", self.path("p.prof"))
            if result.returncode == 0:
                break
        self.assertEqual(result.returncode, 0, result.stderr)
        proof = json.loads(result.stdout)
        # The machine may slow the last round: it began in time and ends at most a round's time late.
        self.assertLess(proof["seconds"], int(limit) + 2 * proof["seconds"] / proof["rounds"])
        self.assertLess(proof["rounds"], 200)

    def test_profile_and_prove_in_one(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        result = subprocess.run([settings.tarn, "profile", "--prove", "-o", self.path("p.prof"), "--", program, "1"],
                                env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "end\n")
        self.assertIn("tarn, ", result.stderr)
        self.assertLess(result.stderr.index("about"), result.stderr.index("Verdict"))

    def test_a_server_under_a_load(self):
        port = self.free_port()
        server = self.write("server.py", SERVER)
        load = self.write("load.py", LOAD)
        self.record_server([sys.executable, server, port], port)
        options = ("--rounds", "1", "--only", "keep-memory", "--ready-port", port)
        proof = self.prove(*options, "--load", f"{sys.executable} {load} {port}")
        self.assertIn("load.py", proof["load"])
        figures = self.ways(proof)["keep-memory"]["figures"]
        self.assertGreater(figures["peak_rss"]["before"], 20 << 20)  # the server's memory, not the load's
        self.assertGreater(figures["wall_time"]["before"], 0)
        failing = tarn("prove", *options, "--load", "exit 3", self.path("p.prof"))
        self.assertEqual(failing.returncode, 3, failing.stderr)
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
            return subprocess.run([settings.tarn, "profile", "--prove", "-o", self.path("p.prof"), "--load", command, *options, "--",
                                   sys.executable, server, port], env=environment(), stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=200, check=False)
        result = profile(f"{sys.executable} {load} {port} && echo x >>{self.path('loads')}", "--ready-port", port)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("at most 1", result.stderr)
        self.assertIn("Verdict", result.stderr)
        loads = os.path.getsize(self.path("loads")) // 2
        self.assertEqual(loads % 2, 1, "one load of the recording, two of each run")
        self.assertGreater(loads, 4)
        self.assert_refused(tarn("prove", self.path("p.prof")), 125, "under a load", "--load")
        failing = profile("exit 3", "--ready-command", "true")
        self.assertEqual(failing.returncode, 125, failing.stderr)
        self.assertIn("the load failed: exit status 3", failing.stderr)
        self.assert_refused(profile("true"), 125, "--ready-port")
        with socket.create_server(("127.0.0.1", int(port))):
            self.assertIn("another process already answers", profile("true", "--ready-port", port).stderr)

    def wait_for(self, port):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", int(port))).close()
                return
            except OSError:
                time.sleep(0.05)
        self.fail("the server does not listen")
