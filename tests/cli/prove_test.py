# SPDX-License-Identifier: MIT
"""End-to-end: `tarn prove` and `tarn profile --prove`, which repeat a program in ways that change no code."""
import json
import os
import shutil
import signal
import subprocess
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

MANY_PLACES = ("#include <cstdlib>\nvoid* volatile kept;\ntemplate <int N> void place() { kept = malloc(16); free(kept); "
               "if constexpr (N % 2 == 0) place<N + 1>(); }\nint main() {\n"
               + "".join(f"  place<{2 * number}>();\n" for number in range(3000)) + "}\n")


class ProveBase(Base):
    def record(self, words, *options, stdin=subprocess.DEVNULL, status=0, **variables):
        self.execute(settings.tarn, "profile", "-q", *options, "-o", self.path("p.prof"), "--", *words,
                     variables=variables, stdin=stdin, code=status)
        return self.path("p.prof")

    def prove(self, *options, status=0, **variables):
        result = tarn("prove", "--json", *options, self.path("p.prof"), variables=variables)
        self.assertEqual(result.returncode, status, result.stderr + result.stdout)
        return json.loads(result.stdout)

    def ways(self, proof):
        return {way["name"]: way for way in proof["ways"]}

    def runs(self, process):
        try:
            return self.read(f"/proc/{process}/stat").rsplit(")", 1)[1].split()[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False


class prove(ProveBase):
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
        self.assertIn("CPU time; measured", self.read(page))

    def test_where_nothing_gains_it_says_so(self):
        self.record([self.compile("arithmetic", ARITHMETIC, "-O2", "-g")])
        result = tarn("prove", "--rounds", "1", "--only", "keep-memory", self.path("p.prof"), code=0)
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

    def test_a_program_that_is_slower_now_has_one_round(self):
        # A run that warms up and a round take longer than 4 s, the limit of a program that takes no time.
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        self.record([self.write("slower", f"#!/bin/sh\ntest -e done && sleep 1.4 && exec {program} 16\n: >done\n")])
        proof = self.prove("--only", "keep-memory")
        self.assertGreaterEqual(proof["rounds"], 1)
        self.assertGreaterEqual(proof["limit_seconds"], 10)
        fails = self.execute(settings.tarn, "profile", "--prove", "-o", self.path("q.prof"), "--", "sh", "-c",
                             f"test -e {self.path('once')} && exit 4; : >{self.path('once')}; sleep 0.3")
        self.assertIn("nothing could be measured", fails.stderr)
        background = self.execute(settings.tarn, "profile", "--prove", "-o", self.path("q.prof"), "--", "sh", "-c",
                                  "sleep 20 >/dev/null 2>&1 & exec sleep 0.3")  # it holds no pipe of this test
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

    def test_profile_and_prove_in_one(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        result = self.execute(settings.tarn, "profile", "--prove", "-o", self.path("p.prof"), "--", program, "1", timeout=120,
                              code=0)
        self.assertEqual(result.stdout, "end\n")
        self.assertIn("tarn, ", result.stderr)
        self.assertLess(result.stderr.index("about"), result.stderr.index("Verdict"))


class prove_often(ProveBase):
    """What some rounds say that fail, are interrupted, or end when all is decided."""

    def test_rounds_end_when_the_ways_are_decided_and_the_limit_is_said_first(self):
        self.record([self.compile("buffers", BUFFERS, "-O2", "-g"), "8"])
        result = tarn("prove", "--only", "keep-memory", "--for", "120", self.path("p.prof"), code=0)
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
        self.record([program, "8"])
        for build in (other, f"'{other}' 8"):
            proof = self.prove("--with-build", build, "--for", "120")
            self.assertEqual([way["name"] for way in proof["ways"]], ["build"])
            way = proof["ways"][0]
            self.assertEqual((way["kind"], way["decision"]), ("build", "saves"))
            self.assertLess(way["figures"]["page_faults"]["ratio"], 0.7)
        proof = self.prove("--with-build", f"{program} 16", "--rounds", "3")
        self.assertEqual(proof["ways"][0]["decision"], "costs")
        self.assert_refused(tarn("prove", "--with-build", self.path("none"), self.path("p.prof")), 127, "none")
        for text, why in (("a | b", "not a command line"), ("", "needs a value"), (" ", "not a command line")):
            self.assert_refused(tarn("prove", "--with-build", text, self.path("p.prof")), 2, why)
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

    def test_a_program_that_begins_to_fail_keeps_its_rounds(self):
        script = self.write("often", "#!/bin/sh\nread runs <runs\necho $((runs + 1)) >runs\ntest $runs -lt 7\n")
        self.write("runs", "0\n")
        self.record([script])
        self.write("runs", "0\n")
        proof = self.prove("--rounds", "5", "--only", "keep-memory", status=3)  # the warm-up, and 3 rounds of 2 runs
        self.assertEqual((proof["rounds"], proof["ways"][0]["rounds"], proof["ways"][0]["failure"]), (3, 3, ""))
        self.assertTrue(any("began to fail in round 4: exit status 1" in note and "3 rounds before" in note
                            for note in proof["notes"]), proof["notes"])

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
        for limit in ("1.5", "6", "40"):  # the longer ones if the machine is too busy
            result = tarn("prove", "--json", "--rounds", "200", "--for", limit, "--only", "keep-memory", self.path("p.prof"))
            if result.returncode == 0:
                break
        self.assertEqual(result.returncode, 0, result.stderr)
        proof = json.loads(result.stdout)
        # The machine may slow the last round: it began in time and ends at most a round's time late.
        self.assertLess(proof["seconds"], float(limit) + 2 * proof["seconds"] / proof["rounds"])
        self.assertLess(proof["rounds"], 200)
