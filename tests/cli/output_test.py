# SPDX-License-Identifier: MIT
"""End-to-end: a command that cannot write its results fails with a message; a closed pipe ends it silently.

profile_verbs_test.py has the same for the other commands that read profiles."""
import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess

from harness import STATE, Base, environment, settings, tarn


@functools.cache
def recorded():
    path = os.path.join(STATE, "output.prof")
    tarn("profile", "--mode", "full", "-o", path, "--", "ls", "/", code=0)
    return path


class output(Base):
    def setUp(self):
        super().setUp()
        shutil.copy(recorded(), self.path("a.prof"))

    def printing(self):
        yield from (["--help"], ["--version"], ["help"])
        commands = re.findall(r"^  ([a-z]+) {2,}", tarn("help").stdout, re.MULTILINE)
        self.assertGreater(len(commands), 15)
        for command in commands:
            yield [command, "--help"] if command != "help" else [command, "run"]
        yield from (["doctor", "--options"], ["doctor", "--options", "--json"], ["doctor"], ["doctor", "--json"],
                    ["compare", "-r", "1", "-w", "0", "--only", "system", "--", "true"],
                    ["compare", "-r", "1", "-w", "0", "--touch", "0", "--only", "system", "--json", "--", "true"])

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

    def shell(self, script, *words):
        """Runs `script` in the test's folder; "$@" is tarn with `words`."""
        return self.execute("sh", "-c", script, "sh", settings.tarn, *words)

    def test_what_cannot_be_said_on_stderr_is_dropped(self):
        recorded = ["profile", "-o", "b.prof", "--"]
        for words, status in ((recorded + ["sh", "-c", "exit 7"], 7), (["profile", "--json", *recorded[1:], "sh", "-c", "exit 7"], 7),
                              (recorded + ["/nowhere/at/all"], 127), (["diff", "a.prof", "a.prof"], 0), (["diff", "a.prof"], 2),
                              (["run", "--stats", "--", "sh", "-c", "exit 7"], 7), (["cost", "--watch", "--", "sh", "-c", "exit 7"], 7),
                              (["compare", "-r", "1", "-w", "0", "--only", "system", "--", "true"], 0),
                              (["prove", "gone.prof"], 125), (["attach", str(2**22 - 1)], 125), (["top", "--", "false"], 1), ([], 2)):
            self.assertEqual(self.shell('exec "$@" 2>/dev/full', *words).returncode, status, (words, "full"))
            self.assertEqual(self.shell('exec "$@" 2>&-', *words).returncode, status, (words, "closed"))
            gone = self.execute(settings.tarn, *words, stdout=subprocess.PIPE, stderr=self.unread_pipe(full=False), capture_output=False)
            self.assertEqual(gone.returncode, status, (words, "without a reader"))
            self.assertNotIn(b"tarn: ", self.content("b.prof"), words)

    def content(self, name):
        path = self.path(name)
        if not os.path.exists(path):
            return b""
        with open(path, "rb") as file:
            return file.read()

    def test_stderr_has_one_way(self):
        for path in (pathlib.Path(__file__).parents[2] / "cli").rglob("*.cpp"):
            if path.name != "cli_error.cpp":
                self.assertNotRegex(path.read_text(encoding="utf-8"), r"(print|put|write)\w*\((stderr|[^;]*, stderr\))|std::cerr <<", path)

    def test_closed_descriptors_stay_closed(self):
        looks = ["run", "--", "sh", "-c", "[ -e /proc/self/fd/2 ] && exit 1; exit 7"]
        self.assertEqual(self.shell('exec "$@" 2>&-', *looks).returncode, 7)
        result = self.shell('exec "$@" >&-', "show", "a.prof")
        self.assertEqual(result.returncode, 125)
        self.assertIn("standard output: the output cannot be written completely", result.stderr)

    def test_a_descriptor_is_written_to_at_its_place(self):
        os.symlink("/dev/stdout", self.path("link"))
        for name in ("/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", "link"):
            result = self.shell('(echo A; "$@"; echo B) > f', "report", "a.prof", "-o", name)
            text = self.content("f")
            self.assertTrue(text.startswith(b"A\n<!DOCTYPE html>") and text.endswith(b"B\n"), (name, result.stderr, text[:80]))

    def test_a_file_that_is_mounted_on_its_own(self):
        for name in ("f.html", "below"):
            self.write(name, "old" * 1_000_000)
        mount = 'mount --bind below f.html || exit 77; "$@" && cat f.html'
        result = self.shell(f"unshare -rm sh -c '{mount}' sh \"$@\"", *["report", "a.prof", "-o", "f.html"])
        if "unshare" in result.stderr or "mount" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(self.content("below").startswith(b"<!DOCTYPE html>"))
        self.assertNotIn(b"oldold", self.content("below"))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("f.html.")], [])
