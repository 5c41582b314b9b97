# SPDX-License-Identifier: MIT
"""End-to-end: the core file of a process with the heap profile as one more thing that tarn show, report, export and diff read."""
import gzip
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import unittest
from pathlib import Path

from harness import Base, settings

MIB = 1 << 20
ROOT = b"tarn core root\1\0"

# keep HOW MIB: keeps blocks of 3,000 bytes at one place, and an eighth as many at another.
PROGRAM = """
    #include <cstdlib>
    #include <cstring>
    #include <string>
    #include <unistd.h>
    #include <vector>
    static std::vector<char*> kept;
    static std::vector<char*> others;
    [[gnu::noinline]] void keep_session() {
      kept.push_back(static_cast<char*>(std::malloc(3000)));
      std::memset(kept.back(), 1, 3000);
    }
    [[gnu::noinline]] void keep_other() {
      others.push_back(static_cast<char*>(std::malloc(3000)));
      std::memset(others.back(), 1, 3000);
    }
    int main(int, char** words) {
      const std::string how = words[1];
      for (int i = 0; i < std::atoi(words[2]) * 340; ++i) {
        keep_session();
        if (i % 8 == 0) keep_other();
        void* volatile block = std::malloc(5000);
        std::free(block);
      }
      if (how == "crash") *reinterpret_cast<volatile int*>(16) = 1;
      if (how == "abort") std::abort();
      if (write(1, "x", 1) != 1) return 1;
      pause();
      return 0;
    }"""


class CoreBase(Base):
    def setUp(self):
        super().setUp()
        self.program = self.compile("keep", PROGRAM, "-g", "-O1", "-fno-builtin")

    def core_of(self, how="crash", mib=40, program=None, code_filter=None, **variables):
        """The path of the core file of a program that crashes."""
        def prepare():
            resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            if code_filter is not None:
                with open("/proc/self/coredump_filter", "w", encoding="ascii") as file:
                    file.write(hex(code_filter))
        with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
            if file.read().strip() != "core":
                self.skipTest("core files do not lie in the program's folder here (core_pattern)")
        before = set(os.listdir(self.folder))
        self.execute(program or self.program, how, str(mib), variables={"LD_PRELOAD": settings.library, **variables},
                     preexec_fn=prepare, code=-signal.SIGABRT if how == "abort" else -signal.SIGSEGV)
        made, = (name for name in set(os.listdir(self.folder)) - before if name.startswith("core"))
        path = self.path(f"made.{len(before)}")
        os.rename(self.path(made), path)
        return path

    def show(self, path, *words, **how):
        return self.execute(settings.tarn, "show", *words, path, **how)

    def assert_first(self, path, mib, *words):
        rows = json.loads(self.show(path, "--json", *words, code=0).stdout)["sites"]
        self.assertTrue(rows[0]["function"].startswith("keep_session"), rows)
        self.assertTrue(rows[1]["function"].startswith("keep_other"), rows)
        # Blocks of 3,000 bytes take 3,072. Five standard deviations; a margin is two.
        self.assertLess(abs(rows[0]["live_bytes"] - mib * 340 * 3072), 2.5 * rows[0]["margins"]["live_bytes"])


class core_files(CoreBase):
    def test_what_a_crashed_process_held(self):
        for how, said in (("crash", "killed by signal 11"), ("abort", "killed by signal 6")):
            core = self.core_of(how, 60, TARN_PROFILE="on")
            self.assert_first(core, 60)
            self.assertIn("keep_session", self.show(core, "--by", "tree", code=0).stdout)
            self.execute(settings.tarn, "report", core, "-o", self.path("page.html"), code=0)
            page = self.read("page.html")
            self.assertIn(said, page)
            self.assertIn("keep_session", page)
        self.assertIn("keep_session", self.execute(settings.tarn, "export", "--collapsed", "-m", "live_bytes", core, code=0).stdout)
        self.execute(settings.tarn, "export", "--pprof", "-o", self.path("x.pb.gz"), core, code=0)
        self.execute(settings.tarn, "diff", core, core, code=0)
        for words in (("show", "-m", "cost"), ("advise",), ("show", "--by", "rss")):
            self.assert_refused(self.execute(settings.tarn, *words, core), 125, "a core file")

    def test_with_a_black_box(self):
        boxes = self.path("boxes")
        os.mkdir(boxes)
        self.assert_first(self.core_of(TARN_BLACK_BOX=boxes), 40)

    def test_a_process_that_runs(self):
        if shutil.which("gcore") is None:
            self.skipTest("gcore is missing")
        process = self.launch(self.program, "wait", "60", stdout=subprocess.PIPE,
                              env=self.environment(LD_PRELOAD=settings.library, TARN_PROFILE="on"))
        process.stdout.read(1)
        made = self.execute("gcore", "-o", self.path("taken"), str(process.pid))
        if made.returncode != 0:
            self.skipTest("no right to trace a process")
        core = self.path(f"taken.{process.pid}")
        self.assert_first(core, 60)
        self.execute(settings.tarn, "report", core, "-o", self.path("page.html"), code=0)
        self.assertIn("names no signal", self.read("page.html"))
        self.assertNotIn("killed by", self.read("page.html"))

    def test_a_program_linked_with_the_archive(self):
        archive = os.path.join(os.path.dirname(settings.library), "libtarn.a")
        if not os.path.exists(archive):
            self.skipTest("there is no archive")
        for name, flags in (("pie", ["-static-pie"]), ("sections", ["-Wl,--gc-sections", "-no-pie"]), ("bare", ["-static"])):
            program = self.path(name)
            made = self.execute(settings.compiler, "-x", "c++", "-", "-x", "none", "-o", program, "-g", "-O1", "-fno-builtin",
                                *flags, "-Wl,--undefined=tarn_program_start", archive, "-lpthread", input=PROGRAM)
            self.assertEqual(made.returncode, 0, made.stderr)
            core = self.core_of(program=program, LD_PRELOAD="", TARN_PROFILE="on")
            if name != "bare":
                self.assert_first(core, 40)
            else:  # it has no table of unwinding
                self.execute(settings.tarn, "report", core, "-o", self.path("page.html"), code=0)
                self.assertIn("-Wl,--eh-frame-hdr", self.read("page.html"))

    def test_what_there_is_no_profile_in(self):
        self.assert_refused(self.show(self.core_of(mib=4)), 125, "the profile was off", "TARN_PROFILE=on", "--black-box")
        self.assert_refused(self.show(self.core_of(mib=1, TARN_PROFILE="1G")), 125, "too little for a sample")
        self.assert_refused(self.show(self.core_of(mib=1, LD_PRELOAD="")), 125, "no tarn in it", "TARN_PROFILE=on")
        # Nothing of the process, and nothing but anonymous memory.
        self.assert_refused(self.show(self.core_of(code_filter=0, TARN_PROFILE="on")), 125, "libtarn", "coredump_filter")
        core = self.core_of(code_filter=1, TARN_PROFILE="on")
        self.assert_first(core, 40)
        self.execute(settings.tarn, "report", core, "-o", self.path("page.html"), code=0)
        self.assertIn("the build-ids of", self.read("page.html"))
        packed = self.path("core.gz")
        with open(packed, "wb") as file:
            file.write(gzip.compress(Path(core).read_bytes()))
        self.assert_refused(self.show(packed), 125, "Unpack")

    def test_another_version(self):
        with open(self.core_of(mib=4, TARN_PROFILE="on"), "rb") as file:
            whole = bytearray(file.read())
        for at in places_of_root(whole):
            whole[at + 14] = 2
        self.assert_refused(self.show(self.written(whole)), 125, "of another layout", "Read it with that version", "had tarn ")

    def written(self, text):
        path = self.path("changed")
        with open(path, "wb") as file:
            file.write(text)
        return path

    def test_a_core_file_that_is_cut_off(self):
        core = self.core_of(mib=40, TARN_PROFILE="on")
        whole = os.path.getsize(core)
        changed = shutil.copy(core, self.path("cut"))
        said = set()
        for part in range(40, 0, -1):
            os.truncate(changed, whole * part // 40)
            result = self.show(changed)
            said.add(result.returncode)
            if result.returncode == 0 and "damaged" not in result.stderr:
                self.assert_first(changed, 40)
            elif result.returncode in (0, 4):
                self.assertIn("cut off", result.stderr)
            else:
                self.assert_refused(result, 125, "cut off", "ulimit -c")
        self.assertIn(0, said)
        self.assertIn(125, said)
        for length in (5000, 4097, 4096, 1000, 65, 64, 63, 19, 18, 17, 5):
            os.truncate(changed, length)
            self.assert_refused(self.show(changed), 125)

    def test_paths_that_are_missing_are_told(self):
        core = self.core_of(mib=20, TARN_PROFILE="on")
        with open(core, "rb") as file:
            whole = bytearray(file.read())
        memory = memory_of(whole)
        root, = places_of_root(whole)
        table = number_at(whole, memory(number_at(whole, root + 56)))
        count = number_at(whole, memory(number_at(whole, root + 64)))
        self.assertGreater(count, 1)
        first = memory(table)
        # One site is nowhere, and another has more than there is memory.
        struct.pack_into("<Q", whole, first, 0x1000)
        result = self.show(self.written(whole))
        self.assertIn(f"1 of {count + 1} call paths lie in memory that it does not have", result.stderr.replace(f"of {count} ", f"of {count + 1} "))
        self.assertIn("missing in all sums", result.stderr)
        struct.pack_into("<Q", whole, memory(number_at(whole, first + 8)) + 24, 1 << 60)
        self.assertIn("figures that cannot be", self.show(self.written(whole)).stderr)
        struct.pack_into("<Q", whole, memory(number_at(whole, root + 64)), 1 << 40)
        self.assert_refused(self.show(self.written(whole)), 125, "its table of call paths is damaged")

    def test_damage_anywhere_that_is_read(self):
        with open(self.core_of(mib=10, TARN_PROFILE="64K"), "rb") as file:
            whole = file.read()
        memory = memory_of(whole)
        root, = places_of_root(whole)
        table = memory(number_at(whole, memory(number_at(whole, root + 56))))
        site = memory(number_at(whole, table))
        chance = random.Random(1)
        ranges = ((0, 64), (64, 4096), (root, 80), (memory(number_at(whole, root + 64)), 8), (table, 64), (site, 400))
        changed = self.written(whole)
        with open(changed, "r+b") as file:
            for number in range(150):
                at, size = ranges[number % len(ranges)]
                places = [at + chance.randrange(size) for _ in range(chance.randrange(1, 6))]
                for place in places:
                    os.pwrite(file.fileno(), bytes([whole[place] ^ (1 << chance.randrange(8)) if number % 2 else chance.randrange(256)]), place)
                result = self.show(changed, timeout=30)
                self.assertIn(result.returncode, (0, 4, 125), (places, result.stderr))
                os.pwrite(file.fileno(), whole[at:at + size], at)
        self.assert_first(changed, 10)


def places_of_root(core):
    at = core.find(ROOT)
    while at >= 0:
        # It has its own address.
        if number_at(core, at + 16) and memory_of(core)(number_at(core, at + 16), None) == at:
            yield at
        at = core.find(ROOT, at + 1)


def number_at(core, at):
    return struct.unpack_from("<Q", core, at)[0]


def memory_of(core):
    """A function from an address to its place in the core file."""
    offset, count = struct.unpack_from("<Q", core, 32)[0], struct.unpack_from("<H", core, 56)[0]
    parts = [struct.unpack_from("<IIQQQQQQ", core, offset + 56 * index) for index in range(count)]

    def place(address, otherwise=0):
        for kind, _, at, start, _, size, _, _ in parts:
            if kind == 1 and start <= address < start + size:
                return at + address - start
        return otherwise
    return place


if __name__ == "__main__":
    unittest.main()
