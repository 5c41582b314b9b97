# SPDX-License-Identifier: MIT
"""Every mistake of mistakes.py gets the exit code and the message that the list promises; and a mistake at any option of any command gets a message in the same layout, of tarn's own words."""
import json
import os
import platform
import pty
import re
import resource
import shutil
import stat
import subprocess

from cost_test import NOBODY, forbid_perf_event_open
from harness import Base, environment, parts_of, settings, tarn
from mistakes import SECTIONS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Phrases of CLI11 and of the C++ library.
FOREIGN = ["not in range", "not in {", "Could not convert", "is required", "required at least", "excludes", "was not expected",
           "were not expected", "filesystem error", "std::", "basic_string", "stoi", "terminate called", "[json.exception"]

class mistakes(Base):
    maxDiff = None

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        os.symlink(settings.tarn, self.path("bin", "tarn"))
        self.options = {"variables": {}, "before": None, "terminal": False, "nobody": False, "pipefail": False}

    def prepare(self, need):
        """Makes what a mistake needs. Returns why that is impossible here, or None."""
        if need.endswith(".prof"):
            return self.make_profile(need)
        if need in ("static", "musl", "foreign", "needy", "own", "setuid"):
            return self.make_program(need)
        files = {"notes.txt": "no profile\n", "x.html": "<p>my own page", "plan.json": "{}", "data": "x", "here": "#!/bin/sh\n"}
        if need in files:
            self.write(need, files[need], 0o755 if need == "here" else 0o644)
        elif need == "script":
            self.write("script", "echo\n")
        elif need == "windows_script":
            self.write("windows_script", "#!/bin/sh\r\necho\r\n")
        elif need == "server-in-path":
            self.write("bin/server", "#!/bin/sh\n")
        elif need == "no-path":
            self.options["variables"]["PATH"] = self.path("bin")
            self.options["variables"]["BROWSER"] = ""
        elif need == "few-files":
            self.options["before"] = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6))
        elif need == "no-perf-events":
            if platform.machine() not in ("x86_64", "aarch64"):
                return "this test knows the system calls of x86-64 and aarch64 only"
            self.options["before"] = lambda: forbid_perf_event_open(13)
        elif need == "nobody":
            if os.getuid() != 0:
                return None  # nobody's rights are those of this user
            self.options["nobody"] = True
        elif need == "terminal":
            self.options["terminal"] = True
        elif need == "pipefail":
            self.options["pipefail"] = True
        elif need not in ("own-id", "real-library"):
            raise ValueError(need)
        return None

    def make_profile(self, name):
        path = self.path(name)
        if name == "empty.prof":
            self.write(name, "")
            return None
        self.execute(settings.make_profile, path, "1000", "200", "1", "sample", code=0)
        if name == "cut.prof":
            os.truncate(path, os.path.getsize(path) - 200)
        if name == "secret.prof":
            os.chmod(path, 0)
        return None

    def make_program(self, name):
        plain = "int main() { return 0; }"
        if name == "static":
            self.compile(name, plain, "-static")
        elif name == "musl":
            self.compile(name, plain, "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1")
        elif name == "foreign":
            with open(self.compile(name, plain), "r+b") as file:
                file.seek(18)
                file.write(b"\xf3\x00")
        elif name == "needy":
            library = self.compile("libgone.so", "int gone() { return 1; }", "-shared", "-fPIC", "-Wl,-soname,libgone.so")
            self.compile(name, "int gone(); int main() { return gone(); }", "-x", "none", library)
            os.unlink(library)
        elif name == "own":
            self.compile(name, '#include <cstddef>\nextern "C" void* malloc(size_t) noexcept { return nullptr; }\n'
                         "int main() { return malloc(1) != nullptr; }", "-rdynamic")
        elif name == "setuid":
            if os.getuid() != 0:
                return "only root can make a setuid program of another user"
            path = self.path(name)
            shutil.copy("/bin/true", path)
            os.chown(path, NOBODY, NOBODY)
            os.chmod(path, stat.S_ISUID | 0o755)
        return None

    def run_line(self, line):
        options = self.options
        variables = environment(PATH=self.path("bin") + ":" + os.environ["PATH"], TERM="dumb")
        variables.update(options["variables"])
        if options["nobody"]:
            os.chmod(self.folder, 0o755)
        more = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if options["nobody"] else {}
        shell = ["/bin/bash", "--norc", "-o", "pipefail", "-c", f"trap '' PIPE; {line}"] if options["pipefail"] else \
            ["/bin/sh", "-c", line]
        if options["terminal"]:
            return self.run_on_terminal(shell, variables)
        return self.execute(*shell, env=variables, preexec_fn=options["before"], **more)

    def run_on_terminal(self, shell, variables):
        controller, terminal = pty.openpty()
        result = subprocess.run(shell, stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.PIPE, text=True,
                                cwd=self.folder, env=variables, timeout=60, check=False)
        os.close(terminal)
        os.close(controller)
        return result

    def test_each(self):
        tried = 0
        for section in SECTIONS.values():
            for one in section:
                with self.subTest(command=one.command):
                    self.doCleanups()
                    self.setUp()
                    reasons = [reason for need in one.needs.split() if (reason := self.prepare(need))]
                    if reasons:
                        self.skipTest(reasons[0])
                    result = self.run_line(one.command)
                    told = result.stderr.replace(os.path.realpath(self.folder), "{folder}").replace(self.folder, "{folder}")
                    told = re.sub(r"process \d+ is not being", "process N is not being", told)
                    told = re.sub(r"attach \d+\n", "attach N\n", told) if "own-id" in one.needs else told
                    told = re.sub(r"after \d+ of \d+ bytes", "after 34281 of 36310 bytes", told)
                    if one.message.endswith("…\n"):  # more lines follow
                        self.assertTrue(told.startswith(one.message[:-2]), told)
                        told = one.message
                    self.assertEqual((result.returncode, told), (one.code, one.message))
                    tried += 1
        self.assertGreaterEqual(tried, 40)

    def test_the_layout(self):
        for section in SECTIONS.values():
            for one in section:
                if one.message and one.code not in (0, 4) and "leaks" not in one.command:
                    self.assertRegex(one.message, r"\Atarn: [^\n]+\n      [^\n]+\n\Z", one.command)
                for phrase in FOREIGN:
                    self.assertNotIn(phrase, one.message, one.command)


class every_option(Base):
    """A bad value, a missing value, a misspelt name and a word too many, at every option of every command."""

    def assert_layout(self, words, code):
        result = self.execute(settings.tarn, *words)
        self.assertEqual(result.returncode, code, (words, result.stderr))
        self.assertRegex(result.stderr, r"\Atarn: [^\n]+\n      [^\n]+\n\Z", words)
        self.assertEqual(result.stdout, "", words)
        for phrase in FOREIGN:
            self.assertNotIn(phrase, result.stderr, words)
        return result.stderr

    def test_all(self):
        verbs = json.loads(tarn("--print-manual", "json").stdout)
        count = 0
        for verb, about in verbs.items():
            code = about["usage_exit"]
            positional = [option for option in about["options"] if option["positional"]]
            if not positional and "PROGRAM" not in about["usage"]:
                self.assertIn("unexpected word", self.assert_layout([verb, "extra"], code))
            for option in about["options"]:
                if option["positional"]:
                    if option["required"] and verb != "merge":
                        self.assert_layout([verb], code)
                    continue
                name = option["names"][0]
                if len(name) > 4:
                    typo = name[:3] + name[4] + name[3] + name[5:]
                    if typo not in option["names"] and typo != name:
                        self.assertIn(f"'{typo}'", self.assert_layout([verb, typo], code))
                if not option["value"]:
                    continue
                self.assertIn("needs a value", self.assert_layout([verb, name], code))
                for given in option["names"]:
                    self.assertIn(f"{given} needs a value", self.assert_layout([verb, given, "", "true"], code))
                    self.assertIn(f"{given} needs a value", self.assert_layout([verb, given, "", "--", "true"], code))
                is_number = option["value"] in ("N", "SECONDS", "PERCENT", "MIB", "PORT")
                if is_number or (option["words"] and option["value"] != "METRIC"):
                    told = self.assert_layout([verb, name, "nonsense"], code)
                    self.assertIn("must be", told)
                    self.assertIn("not 'nonsense'", told)
                    count += 1
                if is_number:
                    self.assertIn("must be", self.assert_layout([verb, name, "-3"], code))
        self.assertGreater(count, 45)

    def test_control_characters_reach_no_terminal(self):
        evil = "ev\x1b]0;title\x07\x1b[31mil\n9.9 s forged\x7f"
        for words in ([evil], ["run", "--", evil], ["run", evil], ["show", evil], ["show", "--metric", evil, "x"],
                      ["show", "--" + evil, "x"], ["compare", "--only", evil, "--", "true"], ["cost", evil],
                      ["profile", "-o", f"/no/{evil}/x", "--", "true"], ["top", "--", evil], ["run", "--plan", evil, "--", "true"],
                      ["diff", evil, evil], ["diff", "--fail-if", evil, "x", "y"], ["attach", evil], ["help", evil],
                      ["prove", evil], ["show", "--by", "leaks", "--suppressions", evil, "x"], ["merge", evil, "x", "-o", "y"],
                      ["compare", "-r", "1", "-w", "0", "--touch", "0", "--only", "system", "--", "true", evil],
                      ["doctor", "--options", evil], ["show", "--by", "tree", evil], ["report", evil], ["advise", evil], ["export", "--json", evil],
                      ["compare", "--", evil], ["profile", "--", evil], ["profile", "--mode", evil, "--", "true"], ["cost", "--malloc", evil],
                      ["profile", "-r", "2", "-o", f"{self.folder}/a{evil}.prof", "--mode", "faults", "--", "no-such-program-here"]):
            result = tarn(*words)
            self.assertNotRegex(result.stdout + result.stderr, "[\x00-\x08\x0b-\x1f\x7f]", words)
            self.assertNotRegex(result.stdout + result.stderr, r"(?m)^\W*(9\.9 s )?forged", words)

    def test_colour(self):
        """--color wins over NO_COLOR and over what standard output is, before and after the command."""
        profile = self.path("x.prof")
        self.execute(settings.make_profile, profile, "1000", code=0)

        def has_colour(*words, **variables):
            return "\x1b[" in tarn(*words, variables=variables).stdout
        for words in (["--color=always", "show", profile], ["--color", "always", "show", profile],
                      ["show", "--color", "always", profile], ["show", profile, "--color=always"]):
            self.assertTrue(has_colour(*words), words)
            self.assertTrue(has_colour(*words, NO_COLOR="1"), words)
        self.assertFalse(has_colour("show", profile))
        self.assertFalse(has_colour("show", "--color", "never", profile))
        self.assertFalse(has_colour("show", "--color", "auto", profile))

    def test_version(self):
        version = tarn("--version").stdout
        for verb in json.loads(tarn("--print-manual", "json").stdout):
            for name in ("--version", "-V"):
                result = tarn(verb, name)
                self.assertEqual((result.returncode, result.stdout, result.stderr), (0, version, ""), verb)

    def test_the_last_of_several_values_counts(self):
        self.assertIn("'4x'", tarn("compare", "--rounds", "3", "--rounds", "4x", "--", "true").stderr)
        self.assertEqual(tarn("compare", "--rounds", "200", "--rounds", "1", "-w", "0", "--touch", "0", "--only", "system", "--",
                              "true").returncode, 0)

    def test_a_terminal_that_is_too_small(self):
        """`tarn top` says what it needs, and leaves a line with its figures when it ends."""
        import fcntl
        import struct
        import termios
        child, terminal = pty.fork()
        if child == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 30, 0, 0))
            os.environ.update(environment(TERM="xterm"))
            os.execv(settings.tarn, ["tarn", "top", "--interval", "0.3", "--for", "2", "--", "sleep", "5"])
        shown = b"".join(parts_of(terminal, 20))
        os.waitpid(child, 0)
        os.close(terminal)
        self.assertIn(b"30 x 5: too small", shown)
        self.assertIn(b"needed: 44 x 8", shown)
