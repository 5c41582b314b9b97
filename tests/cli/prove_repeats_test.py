# SPDX-License-Identifier: MIT
"""End-to-end: `tarn prove` starts a program again as it was started, or says why it cannot."""
import os
import pty
import signal
import subprocess

from harness import settings, tarn
from prove_test import BUFFERS, ProveBase

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


class prove_repeats(ProveBase):
    def test_a_program_that_fails_now_is_reported(self):
        script = self.write("once", "#!/bin/sh\ntest -e done && exit 1\n: >done\n")
        self.record([script])
        self.assert_refused(tarn("prove", self.path("p.prof")), 3, "when it was recorded, but now: exit status 1")

    def test_a_malloc_is_named_from_the_user_s_folder(self):
        self.record([self.compile("buffers", BUFFERS, "-O2", "-g"), "4"])
        proof = self.prove("--rounds", "1", "--malloc", "mine=" + os.path.relpath(settings.library), "--only", "mine")
        self.assertEqual([way["name"] for way in proof["ways"]], ["mine"])

    def test_what_goes_on_in_the_background_is_ended_and_refused(self):
        daemon = self.compile("goes on", GOES_ON)
        self.record([self.write("start", f"#!/bin/sh\ntest -e done && exec '{daemon}' daemon\n: >done\n")])
        self.assert_refused(tarn("prove", "--only", "keep-memory", self.path("p.prof")), 125, "in the background: goes on",
                            "foreground", "--load")
        result = tarn("compare", "-r", "3", "-w", "0", "--touch", "0", "--only", "system", "--", daemon, "daemon",
                      self.path("ids"), code=0)
        self.assertEqual(result.stderr.count("in the background"), 1, result.stderr)
        left = self.read("ids").split()
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
                       variables={"WANTED_INPUT": "other"}, code=3)
        self.assertIn("exit status 5", changed.stderr)
        with open(self.path("in.txt"), "a", encoding="utf-8") as file:
            file.write("third\n")
        self.assert_refused(tarn("prove", self.path("p.prof")), 125, "standard input", "has changed", "--stdin")

    # compare/repeat_test.cpp has all reasons.
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
            early = self.execute(settings.tarn, "profile", "--prove", "-o", self.path("p.prof"), "--", program, "2",
                                 variables=dict(COUNT_RUNS=self.path("runs")), stdin=self.with_line(leader, follower), code=0)
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
