# SPDX-License-Identifier: MIT
"""End-to-end: a command that cannot write its results fails with a message; a closed pipe ends it silently.

profile_verbs_test.py has the same for the other commands that read profiles."""
import json
import os
import re
import signal
import subprocess

from harness import Base, environment, settings, tarn


class output(Base):
    def setUp(self):
        super().setUp()
        self.profile = os.path.join(self.folder, "a.prof")
        recorded = tarn("profile", "--mode", "full", "-o", self.profile, "--", "ls", "/")
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        self.plan = self.write("plan.json", json.dumps({"tarn_plan": 1, "variables": {"A": "1"}}))

    def printing(self):
        profile = self.profile
        yield from (["--help"], ["--version"], ["help"])
        commands = re.findall(r"^  ([a-z]+) {2,}", tarn("help").stdout, re.MULTILINE)
        self.assertGreater(len(commands), 15)
        for command in commands:
            yield [command, "--help"] if command != "help" else [command, "run"]
        yield from (["doctor", "--options"], ["doctor", "--options", "--json"], ["doctor"], ["doctor", "--json"], ["show", profile],
                    ["show", "--json", profile], ["show", "--by", "leaks", profile], ["show", "--by", "leaks", "--json", profile], ["show", "--by", "tree", profile], ["show", "--by", "tree", "--json", profile],
                    ["diff", profile, profile], ["diff", "--json", profile, profile], ["advise", profile],
                    ["advise", "--json", profile], ["report", profile, "-o", "-"],
                    ["compare", "-r", "1", "-w", "0", "--only", "system", "--", "true"],
                    ["compare", "-r", "1", "-w", "0", "--touch", "0", "--only", "system", "--json", "--", "true"])
        for form in ("json", "collapsed", "prometheus", "pprof", "heaptrack"):
            yield ["export", f"--{form}", profile]

    def run_into(self, words, stdout, **more):
        return subprocess.run([settings.tarn, *words], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                              text=True, env=environment(), timeout=60, check=False, **more)

    def test_a_full_device(self):
        for words in self.printing():
            with self.subTest(words=words[:2]), open("/dev/full", "wb") as full:
                result = self.run_into(words, full)
                self.assertEqual(result.returncode, 125, result.stderr)
                self.assertIn("No space left on device", result.stderr)

    def test_a_closed_pipe(self):
        for words in self.printing():
            for ignored in (False, True):
                with self.subTest(words=words[:2], ignored=ignored):
                    reading, writing = os.pipe()
                    os.close(reading)
                    # Python ignores SIGPIPE, and restores the default action in children unless restore_signals is
                    # false.
                    result = self.run_into(words, writing, restore_signals=not ignored)
                    os.close(writing)
                    self.assertEqual(result.returncode, 141 if ignored else -signal.SIGPIPE, result.stderr)
                    self.assertNotIn("pipe", result.stderr.lower())
