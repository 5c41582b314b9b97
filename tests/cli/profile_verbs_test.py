# SPDX-License-Identifier: MIT
"""Every command that reads profiles, from one table: its memory for a large profile, its exit status if its
output cannot be written or its input is damaged, and the width of its tables on a terminal."""
import fcntl
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import termios

from harness import Base, MadeProfiles, environment, parts_of, settings, tarn

# Commands that read no profile.
NO_PROFILE = {"run", "compare", "cost", "profile", "attach", "doctor", "top", "control", "serve", "help"}

# The others: their exit status, and the words that make them read profile A (or A and B) and print. OUT is a file.
PRINTING = [
    (0, "show A"), (0, "show -n 0 A"), (0, "show -n 0 --json A"), (0, "show --by tree A"), (0, "show --by tree --inverted A"),
    (0, "show --by tree --json A"), (0, "show --by rss A"), (0, "show --by rss --over-time A"), (0, "show --by rss --json A"),
    (125, "show --by leaks A"), (125, "show --by leaks --reachable -n 0 A"), (125, "show --by leaks --json -n 0 A"), (0, "diff A B"), (0, "diff -n 0 --json A B"), (0, "diff A B -- B A"),
    (0, "advise A"), (0, "advise --json A"),
    (0, "report -o - A"), (0, "export --json A"), (0, "export --collapsed A"),
    (0, "export --prometheus A"), (0, "export --pprof A"), (0, "export --heaptrack A"),
]
WRITING = ["report -o OUT A", "report -o OUT A B", "merge -o OUT A B", "export --json -o OUT A", "export --pprof -o OUT A",
           "export --heaptrack -o OUT A", "export --collapsed -o OUT A", "export --prometheus -o OUT A", "export --sqlite -o OUT A"]
# These read the profile and then run its program. A synthetic profile has none, so they refuse it.
RUNNING = ["prove --rounds 1 A", "prove --plan A A"]


class Profiles(MadeProfiles):
    def words(self, text, a, b=""):
        named = {"A": a, "B": b or a, "OUT": self.path("out")}
        return [named.get(word, word) for word in text.split()]


class profile_commands(Base):
    def test_no_command_is_missing(self):
        commands = set(re.findall(r"^  ([a-z]+) {2,}", tarn("help").stdout.split("Examples:")[0], re.MULTILINE))
        reading = {text.split()[0] for _, text in PRINTING} | {text.split()[0] for text in WRITING + RUNNING}
        self.assertEqual(commands - NO_PROFILE, reading)


class profile_failures(Profiles):
    def run_into(self, words, stdout, **more):
        return subprocess.run([settings.tarn, *words], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                              text=True, env=environment(), timeout=60, check=False, **more)

    def assert_readable(self, errors):
        self.assertRegex(errors, r'(?m)^(tarn: |{"error":)')
        self.assertNotIn("terminate called", errors)

    def test_standard_output_is_full_or_closed(self):
        a, b = self.make("a.prof"), self.make("b.prof", 100, 230)
        for text in [text for _, text in PRINTING] + ["merge -o OUT A B", "merge --json -o OUT A B"]:
            words = self.words(text, a, b)
            with self.subTest(words=text), open("/dev/full", "wb") as full:
                result = self.run_into(words, full)
                self.assertEqual(result.returncode, 125, result.stderr)
                self.assertIn("No space left on device", result.stderr)
            for ignored in (False, True):
                with self.subTest(words=text, ignored=ignored):
                    reading, writing = os.pipe()
                    os.close(reading)
                    result = self.run_into(words, writing, restore_signals=not ignored)
                    os.close(writing)
                    self.assertEqual(result.returncode, 141 if ignored else -signal.SIGPIPE, result.stderr)
                    self.assertNotIn("pipe", result.stderr.lower())

    def test_a_file_that_cannot_grow_leaves_nothing(self):
        a, b = self.make("a.prof"), self.make("b.prof", 100, 230)
        for text in WRITING:
            words = self.words(text, a, b)
            out = self.path("out")
            with self.subTest(words=text):
                result = self.run_into(words, subprocess.DEVNULL,
                                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
                self.assertEqual(result.returncode, 125, result.stderr)
                self.assert_readable(result.stderr)
                self.assertFalse(os.path.exists(out), "a part of the output was left")
                # Without the limit the same command succeeds.
                self.assertEqual(self.run_into(words, subprocess.DEVNULL).returncode, 0)
                self.assertTrue(os.path.exists(out))
                os.unlink(out)
            with self.subTest(words=text, nowhere=True):
                result = self.run_into([word if word != out else "/nowhere/out" for word in words], subprocess.DEVNULL)
                self.assertIn(result.returncode, (2, 125), result.stderr)
                self.assert_readable(result.stderr)

    def test_a_merged_profile_that_cannot_be_written_leaves_no_older_one_either(self):
        # What OUT held is replaced when it is opened: neither the start of the merged profile nor the old content may stay,
        # not even where the first bytes cannot be written. An OUT that cannot be opened is left alone.
        a, b = self.make("a.prof"), self.make("b.prof", 100, 230)
        words = self.words("merge -o OUT A B", a, b)
        out = words[2]
        for most in (0, 100):
            with self.subTest(most=most):
                self.make("out", 100, 50)
                result = self.run_into(words, subprocess.DEVNULL,
                                       preexec_fn=lambda most=most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
                self.assertEqual(result.returncode, 125, result.stderr)
                self.assert_readable(result.stderr)
                self.assertFalse(os.path.exists(out))
        os.mkdir(out)
        result = self.run_into(words, subprocess.DEVNULL)
        self.assertEqual(result.returncode, 125, result.stderr)
        self.assert_readable(result.stderr)
        self.assertTrue(os.path.isdir(out))
        os.rmdir(out)

    def damaged(self, path):
        """Pairs: what is damaged, and the content of the damaged file."""
        with open(path, "rb") as file:
            whole = file.read()
        size = len(whole)
        for share in (0, 0.0001, 0.01, 0.3, 0.9):
            yield f"cut to {share}", whole[:int(size * share)]
        yield "cut by one byte", whole[:-1]
        for share in (0, 0.05, 0.3, 0.6, 0.95):
            at = min(size - 1, int(size * share))
            yield f"a bit at {share}", whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1:]
        yield "text", b"no profile\n" * 100

    def second_is_damaged(self, words, name):
        """The merger holds the sites of the first file packed when it meets the second one."""
        out = self.words("OUT", "")[0]
        with self.subTest(words="merge, second file", damage=name):
            result = self.run_into(words, subprocess.DEVNULL)
            self.assertEqual(result.returncode in (0, 4), os.path.exists(out), result.stderr)
            if result.returncode != 0 or "cut" in name:
                self.assert_readable(result.stderr)
                self.assertIn(words[-1], result.stderr)
            if result.returncode not in (0, 4):
                self.assertEqual(result.returncode, 125)
            if os.path.exists(out):
                os.unlink(out)

    def test_damaged_files(self):
        a = self.make("a.prof", 3000)
        bad = self.path("bad.prof")
        for name, content in self.damaged(a):
            with open(bad, "wb") as file:
                file.write(content)
            for text in [text for _, text in PRINTING if "-n 0" not in text] + WRITING + RUNNING:
                words = self.words(text, bad, a)
                if text == "merge -o OUT A B":
                    self.second_is_damaged(self.words(text, a, bad), name)
                with self.subTest(words=text, damage=name):
                    result = self.run_into(words, subprocess.DEVNULL)
                    self.assertIn(result.returncode, (0, 4, 125) if text not in RUNNING else (2, 125), result.stderr)
                    if result.returncode in (0, 4):
                        self.assertEqual(result.returncode == 4, "is damaged: " in result.stderr, result.stderr)
                    if result.returncode not in (0, 4):
                        self.assert_readable(result.stderr)
                        self.assertFalse(os.path.exists(self.words("OUT", "")[0]))
                    # Too little is left of these files, so every command refuses them.
                    if "cut" in name and "0.0" in name or name == "text":
                        self.assertEqual(result.returncode, 125 if text not in RUNNING else result.returncode)
                    if os.path.exists(self.words("OUT", "")[0]):
                        os.unlink(self.words("OUT", "")[0])


class profile_width(Profiles):
    """Tables fit on a terminal of 80 columns, and are whole where there is none."""

    def on_terminal(self, words, columns):
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([settings.tarn, *words], stdin=subprocess.DEVNULL, stdout=follower,
                                   stderr=subprocess.DEVNULL, env=environment(NO_COLOR="1"))
        os.close(follower)
        text = b"".join(parts_of(leader))
        os.close(leader)
        process.wait(20)
        return text.decode().replace("\r\n", "\n").splitlines()

    def test_eighty_columns(self):
        for mode in ("full", "sample"):
            a, b = self.make("a.prof", 1000, 400, 1, mode), self.make("b.prof", 1000, 430, 2, mode)
            for text in ("show A", "show --metric peak A", "show --by leaks --reachable A", "show --by rss A",
                         "show --by rss --over-time A", "diff A B", "advise A", *["show --by pinned A"] * (mode == "full")):
                with self.subTest(words=text, mode=mode):
                    lines = self.on_terminal(self.words(text, a, b), 80)
                    self.assertGreater(len(lines), 2)
                    # What is to be copied stays as it is.
                    folded = re.sub(r"(?m)^   change .*\n(?: {13}.*\n)*", "", "\n".join(lines))
                    for line in folded.split("\n"):
                        self.assertLessEqual(len(line), 80, line)
                    self.assertNotRegex(folded, r"(?m)\d$\n *(?:%|B|[KMGT]iB|ns|us|ms|s)\b", "a figure and its unit")

    def test_columns_that_have_no_room_are_named(self):
        a = self.make("a.prof", 1000, 400, 1, "sample")
        whole = tarn("show", a).stdout.splitlines()
        names = whole[0].split()
        self.assertEqual(names, ["cost", "malloc", "hidden", "faults", "allocations", "bytes", "live", "live_bytes", "peak",
                                 "type", "where"])
        lines = self.on_terminal(["show", "--metric", "peak", a], 80)
        shown = lines[0].split()
        self.assertIn("peak", shown)
        self.assertEqual(shown[-1], "where")
        left_out = next(line for line in lines if line.startswith("no room for "))
        self.assertEqual(set(left_out[len("no room for "):].split(", ")) | set(shown), set(names))
        self.assertIn("less -S", "\n".join(lines))
        self.assertNotIn("no room", "\n".join(self.on_terminal(["show", a], 250)))


class profile_memory(Profiles):
    """The peak memory of each command on profiles of 250,000 call paths."""
    MOST = 300 << 10  # KiB

    def peak(self, words):
        process = subprocess.Popen([settings.tarn, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=environment())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_maxrss

    def test_every_command(self):
        for mode in ("full", "sample"):
            a, b = (self.make(f"{seed}.prof", 1000, 250000, seed, mode, "deep") for seed in (1, 2))
            # The report holds the sites of all its profiles: two halves make 250,000.
            halves = [self.make(f"{seed}.half.prof", 1000, 125000, seed, mode, "deep") for seed in (1, 2)]
            work = [(status, text, a, b) for status, text in PRINTING]
            work += [(0, text, *(halves if text.startswith("report") and " A B" in text else (a, b))) for text in WRITING]
            work += [(None, text, a, b) for text in RUNNING]
            for status, text, first, second in work:
                with self.subTest(words=text, mode=mode):
                    code, peak = self.peak(self.words(text, first, second))
                    print(f"{peak >> 10:5} MiB  {mode:6}  {text}", flush=True)
                    if status is not None:
                        self.assertEqual(code, status)
                    self.assertLessEqual(peak, self.MOST)

    def test_merging_many_takes_no_more_than_merging_two(self):
        many = [self.make(f"{seed}.prof", 1000, 60000, seed, "full", "deep") for seed in range(1, 9)]
        alike = [self.make(f"{copy}.same.prof", 1000, 250000, 1, "full", "deep") for copy in (1, 2)]
        out = self.path("out")
        for what, files in (("8 of 60,000 paths", many), ("2 of the same 250,000 paths", alike)):
            with self.subTest(files=what):
                code, peak = self.peak(["merge", "-o", out, *files])
                print(f"{peak >> 10:5} MiB  merge {what}", flush=True)
                self.assertEqual(code, 0)
                self.assertLessEqual(peak, self.MOST)
