# SPDX-License-Identifier: MIT
"""End-to-end: tarn in small containers. What it does before or beside a program takes a sixteenth of their limit."""
import contextlib
import json
import os
import signal
import unittest

from attach_test import Target
from harness import settings
from profile_test import MIB, ProfileBase

LIMITS = (64, 128, 256, 512)


class Group:
    """A control group with a memory limit, below this process's own or at the root; both versions."""
    NAMES = {"cgroup": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes"),
             "cgroup2": ("memory.max", "memory.swap.max", "memory.peak")}

    def __init__(self, test, mib, name="x", below=None):
        for mount, kind in [below] if below else self.mounts():
            self.folder = os.path.join(mount, f"tarn-cli-{os.getpid()}-{name}" if not below else name)
            limit, swap, self.peak_file = self.NAMES[kind]
            try:
                os.mkdir(self.folder)
            except OSError:
                continue
            test.addCleanup(os.rmdir, self.folder)
            if mib is None:
                return
            with contextlib.suppress(OSError):
                if self.write(limit, mib * MIB):
                    self.write(swap, 0 if kind == "cgroup2" else mib * MIB)
                    self.kind = kind
                    return
        raise unittest.SkipTest("no control group with a memory limit can be made here")

    @staticmethod
    def mounts():
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            for line in file:
                place, kind = line.split()[4], line.split(" - ")[1].split()
                if kind[0] == "cgroup2" or (kind[0] == "cgroup" and "memory" in kind[2].split(",")):
                    yield place, kind[0]

    def write(self, name, value):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return False
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{value}\n")
        return True

    def peak(self):
        with open(os.path.join(self.folder, self.peak_file), encoding="utf-8") as file:
            return int(file.read())

    def held(self):
        """What is used, without page cache."""
        used, cache = ("memory.current", "file ") if self.kind == "cgroup2" else ("memory.usage_in_bytes", "cache ")
        with open(os.path.join(self.folder, used), encoding="utf-8") as file, open(os.path.join(self.folder, "memory.stat"), encoding="utf-8") as of:
            lines = of.read().splitlines()
            return int(file.read()) + sum(int(line.split()[1]) * (1 if line.startswith("shmem ") else -1) for line in lines
                                          if line.startswith(("shmem ", cache)))

    @property
    def words(self):
        return ["sh", "-c", f"echo $$ > {self.folder}/cgroup.procs && exec \"$@\"", "sh"]


# Beside the sixteenth: the processes of the command, the shell that enters the group, and what the kernel keeps for them.
OWN_BYTES = 1 * MIB


class containers(ProfileBase):
    def variables(self):
        return {**self.environment(), "TARN_LIBRARY": settings.library}

    def inside(self, group, *words):
        result = self.execute(*group.words, settings.tarn, *words, env=self.variables())
        self.assertEqual(result.returncode, 0, f"{group.folder}: {words}: {result.stderr}")
        return result

    def warm(self, *words):
        """Brings the files that tarn reads into the page cache, where no group counts them."""
        self.execute(settings.tarn, *words, env=self.variables())

    def limited(self, *words):
        """Runs the command in a group of each size; yields the size, the group and what the command said."""
        self.warm(*words)
        groups = {mib: Group(self, mib, f"{words[0]}-{mib}") for mib in LIMITS}  # skips the test, not a part of it
        for mib, group in groups.items():
            with self.subTest(words[0], mib=mib):
                said = self.inside(group, *words)
                self.assertLessEqual(group.peak(), mib * MIB // 16 + OWN_BYTES)
                yield mib, group, said

    def test_profile(self):
        for mib, _, said in self.limited("profile", "-o", "x.prof", "--", "true"):
            self.assertEqual("sixteenth" in said.stderr, mib < 512, said.stderr)

    def test_run(self):
        self.assertEqual(len(list(self.limited("run", "--", "true"))), len(LIMITS))

    def test_compare(self):
        self.assertEqual(len(list(self.limited("compare", "-r", "1", "--only", "system,tarn", "--", "true"))), len(LIMITS))

    def test_doctor_knows_the_limit(self):
        for mib, _, said in self.limited("doctor", "--json"):
            state = {one["key"]: one["state"] for one in json.loads(said.stdout)["facilities"]}["cgroup"]
            self.assertIn(f"{mib} MiB", state)

    def test_limit_of_a_group_above(self):
        above = Group(self, 128, "above")
        below = Group(self, None, "below", (above.folder, above.kind))
        self.warm("profile", "-o", "x.prof", "--", "true")
        self.inside(below, "profile", "-o", "x.prof", "--", "true")
        self.assertLessEqual(above.peak(), 128 * MIB // 16 + OWN_BYTES)

    def test_attach_beside_a_service(self):
        warm = Target(self)
        self.warm("attach", "--for", "0.1", "-o", "x.prof", str(warm.pid))
        groups = {mib: Group(self, mib, f"attach-{mib}") for mib in LIMITS}
        for mib, group in groups.items():
            with self.subTest(mib=mib):
                service = Target(self, *group.words)
                service.ask(f"keep {2 * mib * MIB // 3 // 208}")
                before = group.peak()
                self.assertGreater(before, 0.6 * mib * MIB)
                self.inside(group, "attach", "--for", "0.1", "-o", "x.prof", str(service.pid))
                self.assertEqual(service.ask("burst 1 10").split()[0], warm.ask("burst 1 10").split()[0])
                self.assertLessEqual(group.peak() - before, mib * MIB // 16 + OWN_BYTES)
                service.end()

    def test_a_killed_program_is_reported_with_its_limit_and_who_held_the_memory(self):
        program = self.compile("eats", """
            #include <stdlib.h>
            #include <string.h>
            #include <unistd.h>
            __attribute__((noinline)) void* eat() { return memset(malloc(1 << 20), 1, 1 << 20); }
            void* volatile last;
            int main() { for (;;) { last = eat(); usleep(5000); } }""", "-g", "-O1")
        group = Group(self, 64)
        for _ in range(5):  # the kernel takes its time to end it, in which the recorder looks at it
            said = self.execute(*group.words, settings.tarn, "profile", "-o", "x.prof", "--", program, env=self.variables(),
                                code=-signal.SIGKILL)
            first = said.stderr.splitlines()[0]
            self.assertIn("killed by the kernel, as memory had run out (OOM killer)", first)
            self.assertIn("limit of its control group is 64 MiB", first)
        self.assertRegex(said.stderr, r"MiB +\S+ %  live blocks\n +\S+ MiB +\S+ %    eat")
        shown = self.execute(settings.tarn, "show", "--by", "rss", "x.prof", code=0)
        self.assertIn("limit of the control group 64 MiB", shown.stdout.splitlines()[0])

    def test_limits_of_the_process(self):
        for option in ("-v", "-d"):
            result = self.execute("sh", "-c", f"ulimit {option} {256 << 10}; exec \"$@\"", "sh", settings.tarn, "doctor",
                                  env=self.variables())
            self.assertRegex(result.stdout, r"takes at most 1[45](\.\d+)? MiB")
