# SPDX-License-Identifier: MIT
"""End-to-end: `tarn compare --tail`, with mallocs and programs whose calls are known."""
import errno
import json

from cost_test import forbid_perf_event_open
from harness import Base, environment, finished, settings, tarn

# Blocks of 64 bytes: every 2,000th call spins half a millisecond. Blocks of 5,000 bytes: every 10th call writes to a fresh page.
# All others are libc's.
SLOW_MALLOC = r"""
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>
extern "C" void* __libc_malloc(size_t);
static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}
static unsigned small_calls, medium_calls;
extern "C" void* malloc(size_t size) noexcept {
  if (size == 64 && __atomic_add_fetch(&small_calls, 1, __ATOMIC_RELAXED) % 2000 == 0) {
    const double begin = now();
    while (now() < begin + 0.0005) {
    }
  }
  if (size == 5000 && __atomic_add_fetch(&medium_calls, 1, __ATOMIC_RELAXED) % 10 == 0) {
    char* page = (char*)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *page = 1;
  }
  return __libc_malloc(size);
}
"""

# What it does is the word after its name.
PROGRAM = r"""
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void* volatile block;
static void calls(int times, size_t size) {
  while (times-- > 0) {
    block = malloc(size);
    free(block);
  }
}
static void* many(void*) {
  for (int times = 0; times < 50000; ++times) {
    void* volatile own = malloc(64);
    free(own);
  }
  return nullptr;
}
static void* one(void*) {
  free(malloc(64));
  return nullptr;
}
static pthread_key_t key;
static void* at_end(void* mine) {
  pthread_setspecific(key, mine);
  return nullptr;
}
struct alignas(64) line { char bytes[64]; };
int main(int, char** words) {
  if (!strcmp(words[1], "small")) calls(200000, 64);
  if (!strcmp(words[1], "medium")) calls(5000, 5000);
  if (!strcmp(words[1], "large")) {
    calls(100, 2 << 20);
    block = malloc(100);
    for (int times = 0; times < 50; ++times) block = realloc(block, times % 2 ? 100 : 40000);
    free(memalign(4096, 3 << 20));
    free(calloc(3, 1 << 20));
  }
  if (!strcmp(words[1], "threads")) {
    pthread_t threads[4];
    for (pthread_t& each : threads) pthread_create(&each, nullptr, many, nullptr);
    for (pthread_t& each : threads) pthread_join(each, nullptr);
  }
  if (!strcmp(words[1], "short-threads")) {
    pthread_key_create(&key, free);
    for (int times = 0; times < 600; ++times) {
      pthread_t thread;
      void* mine = malloc(64);
      // Of every other thread the only call is a destructor's.
      pthread_create(&thread, nullptr, times % 2 ? at_end : one, mine);
      pthread_join(thread, nullptr);
      if (times % 2 == 0) free(mine);
    }
    int rings = 0;
    char text[1000];
    FILE* maps = fopen("/proc/self/maps", "r");
    while (fgets(text, sizeof text, maps)) rings += strstr(text, "perf_event") != nullptr;
    return rings > 2;
  }
  if (!strcmp(words[1], "fork")) {
    calls(100, 40000);
    if (fork() == 0) {
      calls(300, 40000);
      _exit(0);
    }
    wait(nullptr);
    calls(100, 40000);
  }
  if (!strcmp(words[1], "killed")) {
    calls(100, 40000);
    kill(getpid(), SIGKILL);
  }
  if (!strcmp(words[1], "operators")) {
    for (int times = 0; times < 1000; ++times) {
      char* volatile array = new char[40000];
      delete[] array;
      line* volatile aligned = new line[1000];
      delete[] aligned;
    }
    try {
      block = new char[~size_t{0} >> 2];
    } catch (...) {
    }
    for (int times = 0; times < 1000; ++times) {  // counted as before the exception
      char* volatile array = new char[40000];
      delete[] array;
    }
  }
  return 0;
}
"""


class tails(Base):
    def compare(self, *words, variables=None):
        return tarn("compare", "--tail", "--touch", "0", *words, variables=variables)

    def program(self):
        return self.compile("calls", PROGRAM, "-O1", "-fno-builtin", "-pthread", "-Wno-alloc-size-larger-than")

    def slow(self):
        return "slow=" + self.compile("libslow.so", SLOW_MALLOC, "-O1", "-shared", "-fPIC")

    def rows(self, mode, *words, code=0, contender=0):
        """{(function, size, page faults): row} of a contender that runs the program once."""
        result = self.compare("-r", "1", "-w", "0", "--json", *words, "--", self.program(), mode)
        self.assertEqual(result.returncode, code, result.stderr)
        self.report = json.loads(result.stdout)
        self.tails = self.report["contenders"][contender]["tails"]
        return {(row["function"], row["size"], row["page_faults"]): row for row in self.tails["rows"]}

    def all_calls(self, rows, function, size):
        whole = rows.get((function, size, False), {"calls": 0, "interrupted": 0})
        return whole["calls"] + whole["interrupted"] + rows.get((function, size, True), {"calls": 0})["calls"]

    def test_table(self):
        result = self.compare("-r", "2", "--only", "system,slow", "--malloc", self.slow(), "--", self.program(), "small")
        self.assertEqual(result.returncode, 0, result.stderr)
        for phrase in ("malloc, up to 1 KiB\n", "\n  system ", "\n  slow ", "free, up to 1 KiB\n", "calls of 2 rounds together (--json has each)",
                       "page faults and interruptions: by ", "subtracted from each call", f"\nslow: {self.path('libslow.so')}\n"):
            self.assertIn(phrase, result.stdout)
        self.assertNotIn("wall time", result.stdout)
        self.assertNotIn("Verdict", result.stdout)

    def test_a_slow_call_is_in_the_tail_and_nowhere_else(self):
        words = ("--only", "system,slow", "--malloc", self.slow())
        slow = self.rows("small", *words, contender=1)
        row = slow["malloc", "up to 1 KiB", False]
        self.assertLess(row["p99_ns"], 300e3)
        self.assertGreater(row["p99_99_ns"], 450e3)
        self.assertGreaterEqual(row["worst_ns"], row["p99_99_ns"])
        self.assertLess(slow["free", "up to 1 KiB", False]["p99_99_ns"], 450e3)
        system = self.report["contenders"][0]["tails"]["rows"]
        self.assertLess([each for each in system if each["function"] == "malloc"][0]["p99_99_ns"], 450e3)

    def test_calls_with_page_faults_are_told_apart(self):
        rows = self.rows("medium", "--only", "slow", "--malloc", self.slow())
        self.assertEqual(self.all_calls(rows, "malloc", "up to 32 KiB") // 10, 500)
        self.assertAlmostEqual(rows["malloc", "up to 32 KiB", True]["calls"], 500, delta=25)
        self.assertGreater(rows["malloc", "up to 32 KiB", True]["p50_ns"], rows["malloc", "up to 32 KiB", False]["p50_ns"])

    def test_where_perf_event_open_is_forbidden_getrusage_serves(self):
        result = finished([settings.tarn, "compare", "--tail", "--touch", "0", "-r", "1", "-w", "0", "--json", "--only", "slow", "--malloc",
                           self.slow(), "--", self.program(), "medium"],
                          code=0, env=environment(), preexec_fn=lambda: forbid_perf_event_open(errno.EACCES))
        tails = json.loads(result.stdout)["contenders"][0]["tails"]
        self.assertEqual(tails["threads_by_getrusage"], tails["threads"])
        faulted = [row["calls"] for row in tails["rows"] if row["page_faults"] and row["size"] == "up to 32 KiB" and row["function"] == "malloc"]
        self.assertAlmostEqual(faulted[0], 500, delta=25)

    def test_each_function_and_size_has_its_row(self):
        rows = self.rows("large", "--only", "system")
        self.assertEqual(self.all_calls(rows, "malloc", "above 1 MiB"), 102)
        self.assertEqual(self.all_calls(rows, "free", "above 1 MiB"), 102)
        self.assertEqual(self.all_calls(rows, "realloc", "up to 1 MiB"), 25)
        self.assertEqual(self.all_calls(rows, "realloc", "up to 1 KiB"), 25)
        for row in self.tails["rows"]:
            needed = {"p50_ns": 20, "p99_ns": 1000, "p99_99_ns": 100000}
            for key, calls in needed.items():
                self.assertEqual(row[key] is not None, row["calls"] >= calls, (row, key))

    def test_threads(self):
        rows = self.rows("threads", "--only", "system,tarn")
        self.assertEqual(self.tails["threads"], 5)
        self.assertGreaterEqual(self.all_calls(rows, "malloc", "up to 1 KiB"), 200000)
        self.assertLess(self.all_calls(rows, "malloc", "up to 1 KiB"), 201000)

    def test_threads_that_end_leave_nothing(self):
        self.rows("short-threads", "--only", "system")
        self.assertEqual(self.tails["threads"], 601)

    def test_forked_children_count_too(self):
        rows = self.rows("fork", "--only", "system")
        self.assertEqual(self.all_calls(rows, "malloc", "up to 1 MiB"), 500)
        self.assertEqual(self.tails["threads"], 2)

    def test_programs_that_a_program_executes_count_too(self):
        words = ("-r", "1", "-w", "0", "--json", "--only", "system", "--", "sh", "-c", f"{self.program()} fork; {self.program()} killed; true")
        tails = json.loads(self.compare(*words).stdout)["contenders"][0]["tails"]
        self.assertEqual(sum(row["calls"] + row.get("interrupted", 0) for row in tails["rows"]
                             if row["function"] == "malloc" and row["size"] == "up to 1 MiB"), 600)

    def test_a_killed_program_has_been_counted(self):
        rows = self.rows("killed", "--only", "system", code=3)
        self.assertEqual(self.all_calls(rows, "malloc", "up to 1 MiB"), 100)

    def test_operator_new_is_counted_once(self):
        for contender in ("system", "tarn"):
            rows = self.rows("operators", "--only", contender)
            self.assertEqual(self.all_calls(rows, "malloc", "up to 1 MiB"), 3000, contender)
            self.assertEqual(self.all_calls(rows, "free", "up to 1 MiB"), 3000, contender)

    def test_refusals(self):
        program = self.compile("static", "int main() {}", "-static")
        self.assert_refused(self.compare("--only", "system", "--", program), 125, "statically linked")
        own = self.compile("own", "#include <stddef.h>\nextern \"C\" void* malloc(size_t) noexcept { return nullptr; } int main() {}", "-rdynamic")
        self.assert_refused(self.compare("--only", "system", "--", own), 125, "contains its own malloc")
        missing = self.compare("--only", "system", "--", "true", variables={"TARN_LIBRARY_TAIL": "/no/such.so"})
        self.assert_refused(missing, 125, "/no/such.so")
