# SPDX-License-Identifier: MIT
"""End-to-end: `tarn advise`, `prove --plan`, `run --plan` and `top` on real recordings, with the real recorder and libtarn."""
import fcntl
import glob
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import time

from harness import Base, environment, parts_of, settings, tarn

BUFFERS = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
int main(int count, char** words) {
  const int rounds = count > 1 ? std::atoi(words[1]) : 20;
  unsigned long sum = 0;
  for (int round = 0; round < rounds; ++round) {
    char* bytes = new char[33554432];
    std::memset(bytes, round, 33554432);
    asm volatile("" : : "r"(bytes) : "memory");
    sum += bytes[round];
    delete[] bytes;
  }
  std::printf("%lu\\n", sum);
}
"""

NODES = """
#include <cstdio>
struct node { long values[8]; node* next; };
__attribute__((noinline)) node* make(node* next) { node* one = new node; one->next = next; one->values[0] = 1; return one; }
__attribute__((noinline)) void* other() { return new char[3000]; }
int main() {
  long sum = 0;
  for (int round = 0; round < 300; ++round) {
    node* list = nullptr;
    for (int i = 0; i < 500; ++i) list = make(list);
    delete[] static_cast<char*>(other());
    while (list) { node* next = list->next; sum += list->values[0]; delete list; list = next; }
  }
  std::printf("%ld\\n", sum);
}
"""

ARITHMETIC = """
#include <cstdio>
int main() { unsigned long x = 1; for (long i = 0; i < 150000000; ++i) x = x * 6364136223846793005ul + 1; std::printf("%lu\\n", x); }
"""


def record(path, words, mode="full"):
    subprocess.run([settings.tarn, "profile", "-q", "--mode", mode, "-o", path, "--", *words], env=environment(), check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60)


class advice(Base):
    def test_refaulted_buffers_from_advice_to_proof(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        record(self.path("b.prof"), [program])
        result = tarn("advise", "--json", self.path("b.prof"), code=0)
        found = json.loads(result.stdout)["advice"]
        kinds = [one["kind"] for one in found]
        self.assertEqual(kinds[0], "tunable", kinds)
        self.assertIn("buffer pool", kinds)
        self.assertGreater(found[0]["share"], 0.1)
        text = tarn("advise", self.path("b.prof")).stdout
        self.assertIn("GLIBC_TUNABLES", text)
        self.assertIn("main", text)
        number = str(1 + kinds.index("buffer pool"))
        self.assertEqual(tarn("advise", self.path("b.prof"), "--plan", self.path("p.json"), "--number", number).returncode, 0)
        size = os.path.getsize(self.path("b.prof"))
        proven = tarn("prove", "--json", "-r", "3", "--plan", self.path("p.json"), self.path("b.prof"), code=0)
        figures = json.loads(proven.stdout)
        self.assertEqual({one["name"] for one in figures["ways"]}, {"tarn", "layer", "plan"})
        faults = {one["name"]: one["metrics"]["minor_faults"]["median"] for one in figures["runs"]}
        self.assertLess(faults["plan"], faults["unchanged"] / 5)
        self.assertEqual(figures["plan"]["blocks"]["0"], 3 * 20)  # three rounds
        self.assertGreater(figures["plan"]["measured"]["saving_ns"], 0)
        self.assertEqual(os.path.getsize(self.path("b.prof")), size)  # a plan's result is not the profile's

    def test_a_plan_with_variables(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        record(self.path("b.prof"), [program], "sample")
        self.assertEqual(tarn("advise", self.path("b.prof"), "--plan", self.path("p.json")).returncode, 0)
        with open(self.path("p.json"), encoding="utf-8") as file:
            self.assertIn("GLIBC_TUNABLES", json.load(file)["variables"])
        once = tarn("run", "--plan", self.path("p.json"), "--", "sh", "-c", "echo $GLIBC_TUNABLES; exit 3", code=3)
        self.assertIn("trim_threshold", once.stdout)

    def test_pools_serve_their_site_alone(self):
        program = self.compile("nodes", NODES, "-O2", "-g")
        record(self.path("n.prof"), [program])
        advised = tarn("advise", "--min", "0", "--json", self.path("n.prof"))
        kinds = [one["kind"] for one in json.loads(advised.stdout)["advice"]]
        self.assertIn("typed pool", kinds)
        number = str(1 + kinds.index("typed pool"))
        self.assertEqual(
            tarn("advise", "--min", "0", self.path("n.prof"), "--plan", self.path("p.json"), "--number",
                 number).returncode, 0)
        proven = tarn("prove", "--json", "-r", "1", "--plan", self.path("p.json"), self.path("n.prof"), code=0)
        blocks = json.loads(proven.stdout)["plan"]["blocks"]["0"]  # of one round
        self.assertGreater(blocks, 500)  # a slot that is freed and allocated again in one magazine counts once
        self.assertLessEqual(blocks, 300 * 500)

    def test_a_program_without_savings_is_left_alone(self):
        program = self.compile("arithmetic", ARITHMETIC, "-O2", "-g")
        record(self.path("a.prof"), [program])
        result = tarn("advise", self.path("a.prof"), code=0)
        self.assertIn("Leave it", result.stdout)
        self.assertEqual(json.loads(tarn("advise", "--json", self.path("a.prof")).stdout)["advice"][0]["kind"], "leave it")
        self.assert_refused(tarn("advise", self.path("a.prof"), "--plan", self.path("p.json")), 125, "none of this advice")
        self.assertFalse(os.path.exists(self.path("p.json")))

    def test_advice_is_counted_and_predicts_nothing(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        record(self.path("s.prof"), [program], "sample")
        found = json.loads(tarn("advise", "--json", self.path("s.prof")).stdout)
        first = found["advice"][0]
        self.assertEqual((first["kind"], first["grade"], first["reach"]), ("tunable", "counted", "a setting"))
        # All but the first of 20 buffers of 8,192 pages are faulted in again.
        self.assertGreater(first["counted_ns"], 0)
        self.assertLessEqual(first["counted_ns"], found["allocation_ns"] * 1.001)
        self.assertEqual({one["saving_ns"] for one in found["advice"]}, {0})
        text = tarn("advise", self.path("s.prof")).stdout
        self.assertIn("; counted", text)
        self.assertNotIn("saves", text)

    def test_the_installed_mallocs_are_named(self):
        program = self.compile("nodes", NODES, "-O2", "-g")
        record(self.path("n.prof"), [program])
        advised = json.loads(tarn("advise", "--json", "--min", "0", self.path("n.prof")).stdout)["advice"]
        evidence = next(one["evidence"] for one in advised if one["kind"] == "another malloc")
        self.assertRegex(evidence[-1], r"^installed here: .*\btarn\b.*; which of them is best, only a run can tell$")

    def test_files_that_cannot_be_used(self):
        program = self.compile("nodes", NODES, "-O2", "-g")
        record(self.path("s.prof"), [program], "sample")
        self.assert_refused(tarn("advise", self.path("none.prof")), 125, "none.prof")
        other = self.write("other", "text\n")
        self.assert_refused(tarn("advise", other), 125, other)
        self.assert_refused(tarn("advise", "--number", "1", self.path("s.prof")), 2, "--plan")
        record(self.path("f.prof"), [program])
        with open(self.path("f.prof"), "r+b") as file:
            file.truncate(os.path.getsize(self.path("f.prof")) * 2 // 3)
        cut = tarn("advise", self.path("f.prof"))
        self.assertIn("tarn: ", cut.stderr)
        self.assertIn(cut.returncode, (4, 125))

    def test_a_plan_that_loads_what_others_wrote_needs_consent(self):
        library = shutil.copy(settings.library, self.path("evil.so"))
        for plan in ({"malloc": library}, {"variables": {"LD_PRELOAD": library}}, {"variables": {"LD_AUDIT": library}}):
            path = self.write("p.json", json.dumps({"tarn_plan": 1, **plan}))
            self.assert_refused(tarn("run", "--plan", path, "--", "true"), 125, "evil.so", "--trust-file")
        self.write("p.json", json.dumps({"tarn_plan": 1, "malloc": library}))
        self.assertEqual(tarn("run", "--trust-file", "--plan", path, "--", "true").returncode, 0)

    def test_plans_that_cannot_be_used(self):
        self.assert_refused(tarn("run", "--plan", self.path("none.json"), "--", "true"), 125, "cannot be read")
        self.assert_refused(tarn("run", "--plan", self.write("p.json", "{}"), "--", "true"), 125, "not a plan")
        self.assert_refused(tarn("run", "--plan", self.write("q.json", '{"tarn_plan": 1}'), "--", "true"), 125, "changes nothing")
        self.assert_refused(tarn("run", "--plan", self.write("q.json", '{"tarn_plan": 1}')), 125, "no program given")
        self.assert_refused(tarn("run", "--stats", "--plan", self.path("q.json"), "--", "true"), 125, "cannot be used together")
        many = [{"use": "pool", "size": 8, "group": i, "frames": [{"module": "a", "offset": "0x1"}]} for i in range(33)]
        self.assert_refused(tarn("run", "--plan", self.write("m.json", json.dumps({"tarn_plan": 1, "sites": many})), "--", "true"),
                            125, "32 groups")

    def test_a_plan_that_can_have_no_effect_is_refused(self):
        program = self.compile("still", ARITHMETIC.replace("150000000", "1000"), "-static")
        recorded = subprocess.run([settings.tarn, "profile", "-q", "--mode", "faults", "-o", self.path("s.prof"), "--", program],
                                  env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False, timeout=60)
        if recorded.returncode != 0:
            self.skipTest("page faults cannot be recorded here")
        plan = self.write("p.json", '{"tarn_plan": 1, "malloc": "tarn"}')
        self.assert_refused(tarn("prove", "--plan", plan, self.path("s.prof")), 125, "no effect", "static")
        variables = self.write("v.json", '{"tarn_plan": 1, "variables": {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=0"}}')
        tarn("prove", "-r", "1", "--plan", variables, self.path("s.prof"), code=0)

    def test_a_plan_is_measured_beside_named_ways_and_not_by_an_earlier_proof(self):
        record(self.path("t.prof"), ["true"])
        self.assertEqual(tarn("prove", "-r", "3", "--only", "tarn", self.path("t.prof")).returncode, 0)
        plan = self.write("p.json", '{"tarn_plan": 1, "variables": {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=0"}}')
        found = json.loads(tarn("prove", "--json", "-r", "1", "--plan", plan, "--only", "tarn", self.path("t.prof")).stdout)
        self.assertEqual({one["name"] for one in found["ways"]}, {"tarn", "plan"})
        self.assertEqual([one for one in found["advice"] if one["grade"] in ("measured", "refuted")], [])

    def test_sites_of_another_build_are_reported(self):
        site = {"use": "pool", "size": 64, "group": 0, "place": "x", "frames": [{"module": "/bin/x", "build_id": "00ff", "offset": "0x10"}]}
        record(self.path("t.prof"), ["true"])
        result = tarn("prove", "-r", "1", "--plan", self.write("p.json", json.dumps({"tarn_plan": 1, "sites": [site]})),
                      self.path("t.prof"), code=0)
        self.assertIn("built again", result.stderr)
        self.assertIn("0 blocks per run", result.stdout)
        # The variables that carry the plan are no options of the library, which is preloaded as well.
        once = tarn("run", "--plan", self.path("p.json"), "--", "true")
        self.assertEqual((once.returncode, once.stderr), (0, ""))


class top(Base):
    def test_rows_of_a_program(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        result = tarn("top", "--once", "--json", "--interval", "0.3", "--", program, "2000", code=0)
        row = json.loads(result.stdout)
        self.assertGreater(row["hidden_share"], row["malloc_share"])
        self.assertIn("main", row["places"][0]["place"])

    def test_ends_as_the_program_does(self):
        result = tarn("top", "--", "sh", "-c", "exit 7", code=7)
        self.assert_refused(tarn("top"), 2)
        self.assertEqual(tarn("top", "--", "no-such-program-here").returncode, 127)
        result = tarn("top", "--for", "0.1", "--", "sleep", "5")  # shorter than the measurement of prices before the start
        self.assertEqual((result.returncode, result.stdout), (0, ""))
        self.assertIn("no figures yet", result.stderr)

    def test_processes(self):
        sleeper = self.launch("sleep", "30")
        rows = tarn("top", "--once", "--json", "--interval", "0.3", str(sleeper.pid)).stdout.splitlines()
        self.assertTrue(rows)
        for row in rows:
            json.loads(row)
        result = tarn("top", "--once", "--interval", "0.3", str(sleeper.pid), code=0)
        self.assertIn("not started under tarn profile", result.stderr)
        sleeper.kill()
        sleeper.wait()
        self.assert_refused(tarn("top", str(sleeper.pid)), 125, "has ended, or does not exist")

    def recorded(self, program):
        """Its recorder, and its process id."""
        recorder = self.launch(settings.tarn, "profile", "-q", "--no-events", "--checkpoint", "0.3", "-o", "x.prof", "--", "sh", "-c",
                               f"echo $$; exec {program} 100000", stdout=subprocess.PIPE)
        return recorder, recorder.stdout.readline().strip()

    def asked(self, process, word):
        """What `top` says of it as soon as it says this word."""
        deadline = time.monotonic() + 20
        while word not in (result := tarn("top", "--once", "--json", "--interval", "0.3", process)).stdout:
            if time.monotonic() > deadline:
                break
            time.sleep(0.3)
        return result

    def test_attaches_to_a_recording(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        recorder, process = self.recorded(program)
        result = self.asked(process, "main")
        self.assertIn("main", json.loads(result.stdout)["places"][0]["place"], result.stderr)
        recorder.terminate()  # reaches the program
        recorder.wait()
        self.assertFalse(os.path.exists(f"/proc/{process}"), "the program is still running")

    def test_finds_the_recording_of_a_program_that_writes_over_its_environment(self):
        # Redis, postgres and nginx do so to set their process title.
        program = self.compile("titled", BUFFERS.replace("int main(", """extern char** environ;
            static int serve(int, char**);
            int main(int count, char** words) {
              for (char** each = environ; *each != nullptr; ++each) {
                for (char* letter = *each; *letter != 0; ++letter) *letter = 't';
              }
              return serve(count, words);
            }
            static int serve(""", 1).replace("sum);", "sum); return 0;"), "-O2", "-g")
        recorder, process = self.recorded(program)
        result = self.asked(process, "places")
        self.assertIn("places", result.stdout, result.stderr)
        with open(f"/proc/{process}/environ", "rb") as file:
            self.assertNotIn(b"TARN_RECORD", file.read())
        recorder.terminate()
        recorder.wait()

    def test_sigterm_leaves_no_temporary_folder(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        before = set(glob.glob("/tmp/tarn-top-*"))
        top = self.launch(settings.tarn, "top", "--interval", "0.3", "--", program, "100000", stdout=subprocess.PIPE)
        top.stdout.readline()
        self.assertTrue(set(glob.glob("/tmp/tarn-top-*")) - before)
        top.send_signal(signal.SIGTERM)
        self.assertEqual(top.wait(20), -signal.SIGTERM)
        self.assertEqual(set(glob.glob("/tmp/tarn-top-*")) - before, set())

    def test_the_screen_is_restored_and_each_frame_fits_it(self):
        program = self.compile("buffers", BUFFERS, "-O2", "-g")
        child, terminal = pty.fork()
        if child == 0:
            os.environ.update(environment(TERM="xterm"))
            os.execv(settings.tarn, ["tarn", "top", "--interval", "0.3", "--", program, "100000", "a\nb"])
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        text = b""
        sent = 0
        for part in parts_of(terminal, 30):
            text += part
            if b"allocs/s" in text and b"main" in text and sent < 2:
                os.write(terminal, (b"f", b"m q")[sent])  # pressed in a row, none is lost
                sent += 1
        os.close(terminal)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0, text[-500:])
        self.assertIn(b"\x1b[?1049h", text)
        # What remains are the averages and the places, by what they were sorted.
        remains = re.sub(rb"\x1b\[[0-9;]*m", b"", text.split(b"\x1b[?1049l")[-1]).decode().splitlines()
        self.assertRegex(remains[0], r"^tarn top: averages of \d+ s: ")
        self.assertRegex(remains[1], r"^CPU [\d.,]+ % of a processor   cost of memory [\d.,]+ %")
        self.assertIn("*faults/s", remains[4])
        self.assertTrue(remains[5].startswith("main"), remains)
        self.assertLessEqual(max(map(len, remains)), 80, remains)
        # The last frame fits on the screen, whatever the program's arguments are, and has rows with names.
        last = text.split(b"\x1b[H")[-1].split(b"\x1b[J")[0].decode()
        lines = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line) for line in last.replace("\r", "").split("\n")]
        self.assertLessEqual(len(lines), 24, lines)
        self.assertLessEqual(max(len(line) for line in lines), 80, lines)
        self.assertTrue(any(line.startswith("main") for line in lines), lines)
