# SPDX-License-Identifier: MIT
"""End-to-end: `tarn compare`."""
import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import time

from harness import Base, parts_of, settings, tarn


class compare(Base):
    def compare(self, *words, variables=None):
        return tarn("compare", "--touch", "0", *words, variables=variables)

    def test_table_and_verdict(self):
        result = self.compare("-r", "6", "--only", "system,tarn", "--", "sh", "-c", "exit 0")
        self.assertEqual(result.returncode, 0, result.stderr)
        for phrase in ("wall time", "CPU time", "peak RSS", "page faults", "medians of 6 rounds", "Verdict",
                       f"\ntarn: {os.path.realpath(settings.library)}\n"):
            self.assertIn(phrase, result.stdout)

    def test_json_has_every_run(self):
        result = self.compare("-r", "3", "--only", "tarn,twin", "--malloc", f"twin={settings.library}",
                              "--json", "--seed", "5", "--", "true")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual([one["name"] for one in report["contenders"]], ["tarn", "twin"])
        for one in report["contenders"]:
            self.assertEqual(len(one["metrics"]["wall_seconds"]["runs"]), 3)
            self.assertEqual(one["library"], settings.library)
        self.assertEqual(report["seed"], 5)

    def test_a_real_difference_is_found(self):
        script = self.write("biased", '#!/bin/sh\n[ -n "$LD_PRELOAD" ] && sleep 0.15\nsleep 0.01\n')
        # With 12 rounds the verdict stands even if other load disturbs two of them.
        report = json.loads(self.compare("-r", "12", "--only", "system,tarn", "--json", "--", script).stdout)
        wall = [one for one in report["verdicts"] if one["metric"] == "wall time"]
        self.assertEqual([one["outcome"] for one in wall], ["more"])
        self.assertGreater(wall[0]["ratio"], 1.5)

    def test_small_programs_keep_their_own_peak_memory(self):
        program = self.compile("tiny", "int main() { return 0; }")
        report = json.loads(tarn("compare", "-r", "3", "--touch", "64", "--only", "system", "--json", "--",
                                 program).stdout)
        peak = report["contenders"][0]["metrics"]["peak_rss_bytes"]["median"]
        self.assertLess(peak, 4 << 20)
        self.assertGreater(peak, 100 << 10)

    def test_same_failure_everywhere_is_the_programs(self):
        words = ("-r", "3", "--only", "system,tarn")
        result = self.compare(*words, "--", "sh", "-c", "echo because >&2; exit 4")
        self.assertEqual(result.returncode, 3)
        self.assertIn("every allocator alike (exit status 4)", result.stderr)
        self.assertIn("| because", result.stderr)
        self.assertIn("wall time", result.stdout)
        self.assertEqual(self.compare("-i", *words, "--", "sh", "-c", "exit 4").returncode, 0)

    def test_failure_under_one_allocator(self):
        result = self.compare("-r", "3", "--only", "system,tarn", "--", "sh", "-c",
                              '[ -z "$LD_PRELOAD" ] || { echo broken >&2; kill -ABRT $$; }')
        self.assertEqual(result.returncode, 1)
        self.assertIn("fails under tarn: killed by signal 6", result.stderr)
        self.assertIn("| broken", result.stderr)

    def test_timeout_counts_as_failure_and_leaves_nothing_running(self):
        marker = self.path("pid")
        result = self.compare("-r", "3", "--timeout", "0.5", "--only", "tarn", "--", "sh", "-c",
                              f"sleep 60 & echo $! > {marker}; wait")
        self.assertEqual(result.returncode, 1)
        self.assertIn("still running after 0.5 s", result.stderr)
        pid = int(self.read(marker))
        deadline = time.monotonic() + 10
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    break
            time.sleep(0.05)
        self.assertLess(time.monotonic(), deadline, "the program's own child survived")

    def test_interruption_ends_program_and_command(self):
        process = subprocess.Popen([settings.tarn, "compare", "--only", "system", "--", "sleep", "60"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        child = None
        deadline = time.monotonic() + 20
        while child is None and time.monotonic() < deadline:
            with open(children, encoding="ascii") as file:
                for word in file.read().split():
                    # A helper process of the command may have ended since.
                    with contextlib.suppress(FileNotFoundError, ProcessLookupError), \
                         open(f"/proc/{word}/comm", encoding="ascii") as name:
                        child = int(word) if name.read() == "sleep\n" else child
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), -signal.SIGINT)
        self.assertIsNotNone(child, "the program was not seen to run")
        self.assertFalse(os.path.exists(f"/proc/{child}"))

    def test_the_time_left_counts_down_while_a_run_lasts(self):
        ours, theirs = pty.openpty()
        with subprocess.Popen([settings.tarn, "compare", "--touch", "0", "-w", "0", "-r", "2", "--only", "system",
                               "--", "sleep", "2.3"], stdout=subprocess.DEVNULL, stderr=theirs) as process:
            os.close(theirs)
            shown = b"".join(parts_of(ours))
            os.close(ours)
        self.assertEqual(process.returncode, 0, shown)
        left = [int(word) for word in re.findall(rb"about (\d+) s left", shown)]
        self.assertGreaterEqual(len(left), 2, shown)
        self.assertEqual(left, sorted(left, reverse=True))
        self.assertLess(left[-1], left[0])

    def test_output_and_input(self):
        given = self.write("given", "from file\n")
        words = ("-r", "1", "-w", "0", "--only", "system", "--stdin", given)
        self.assertIn("from file", self.compare("--show-output", *words, "--", "cat").stdout)
        self.assertNotIn("from file", self.compare(*words, "--", "cat").stdout)
        result = self.compare("--show-output", "--json", *words, "--", "cat")
        self.assertIn("from file", result.stderr)
        json.loads(result.stdout)
        missing = self.compare("--only", "system", "--stdin", "/no/such", "--", "cat")
        self.assert_refused(missing, 125, "cannot be read")

    def test_unloadable_contender_is_left_out_and_named(self):
        plain = self.compile("libplain.so", "int plain() { return 1; }", "-shared", "-fPIC")
        result = self.compare("-r", "1", "--only", "system,plain", "--malloc", f"plain={plain}", "--", "true")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("plain left out", result.stderr)

    def test_a_preloaded_malloc_does_not_pose_as_the_systems(self):
        result = self.compare("-r", "1", "--only", "system", "--show-output", "--", "sh", "-c",
                              "echo preload=${LD_PRELOAD-none}", variables={"LD_PRELOAD": settings.library})
        self.assertIn("preload=none", result.stdout)
        self.assertIn("removed from all runs", result.stderr)

    def test_a_program_with_a_linked_allocator_is_noted(self):
        library = self.compile("libown.so", '#include <cstddef>\nextern "C" void* __libc_malloc(size_t);'
                               'extern "C" void* malloc(size_t n) noexcept { return __libc_malloc(n); }',
                               "-shared", "-fPIC")
        program = self.compile("linked", "int main() { return 0; }", "-Wl,--no-as-needed", "-x", "none",
                               library, f"-Wl,-rpath,{self.folder}")
        result = self.compare("-r", "1", "--only", "system,tarn", "--", program)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("'system' is the program as it is: its malloc comes from " + library, result.stderr)

    def test_bad_arguments(self):
        self.assert_refused(self.compare("--malloc", "nothing", "--", "true"), 2, "NAME=LIBRARY")
        self.assert_refused(self.compare("--malloc", "system=/x.so", "--", "true"), 2, "cannot be a library's")
        self.assert_refused(self.compare("--malloc", "x=libno-such-thing.so", "--", "true"), 2, "no library")
        self.assert_refused(self.compare("--", "no-such-program-xyzzy"), 127)
