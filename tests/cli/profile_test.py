# SPDX-License-Identifier: MIT
"""End-to-end: `tarn profile` on programs with known allocations."""
import glob
import json
import os
import re
import shutil
import subprocess

from harness import Base, settings

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
END = 7  # profile_target's exit status


def sees_faults():
    """Whether page faults in user mode are recorded here, and whether those in kernel mode are."""
    result = subprocess.run([settings.tarn, "doctor", "--json"], capture_output=True, text=True, check=False)
    standing = {one["key"]: one["standing"] for one in json.loads(result.stdout)["facilities"]}
    return standing["page_faults"] == "works", standing["kernel_faults"] == "works"


def small_pages():
    with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="utf-8") as file:
        return "[always]" not in file.read() and PAGE == 4096


class ProfileBase(Base):
    def environment(self, **more):
        variables = {**os.environ, "TARN_RECORDER": settings.recorder, **more}
        if "LD_PRELOAD" not in more:
            variables.pop("LD_PRELOAD", None)
        return variables

    def record_program(self, *program, mode="full", options=(), status=0, **more):
        """Records a program into x.prof; returns the profile as profile_dump prints it."""
        path = self.path("x.prof")
        self.result = self.execute(settings.tarn, "profile", "--mode", mode, "-o", path, *options, "--", *program, **more,
                                   code=status)
        return self.dump(path)

    def profile(self, *words, status=END, **more):
        """The same with profile_target and these arguments."""
        return self.record_program(settings.profile_target, *words, status=status, **more)

    def dump(self, path):
        return json.loads(self.execute(settings.profile_dump, path, code=0).stdout)

    def figures(self, profile, function):
        """The sums over the sites whose label is this function of the target."""
        sums = {}
        for site in profile["sites"]:
            if function + "(" not in site["label"] and not site["label"].endswith(function):
                continue
            for name, value in site["figures"].items():
                sums[name] = sums.get(name, 0) + value
        self.assertTrue(sums, f"no site {function}: {[site['label'] for site in profile['sites']]}")
        return sums

    def assert_near(self, value, truth, part=0.01):
        self.assertLessEqual(abs(value - truth), max(1, part * truth), f"{value}, expected {truth}")


class profile(ProfileBase):
    known = None

    def exact(self):
        """One recording for several tests."""
        profile.known = profile.known or self.profile("exact", "10")
        return profile.known

    def bundle(self, program):
        """A copy of a program with its loader and libraries, as AppImages and the like have them; the words to start it."""
        listed = self.execute("ldd", program, code=0).stdout
        loader = None
        for path in re.findall(r"(/\S+) \(0x", listed):
            loader = loader or (path if "/ld-linux" in path else None)
            shutil.copy(path, self.folder)
        shutil.copy(program, self.folder)
        self.assertIsNotNone(loader, listed)
        return [self.path(os.path.basename(loader)), "--library-path", self.folder,
                self.path(os.path.basename(program))]

    def test_a_program_that_the_dynamic_loader_starts(self):
        whole = self.bundle(settings.profile_target)
        below = ["./" + os.path.basename(whole[0]), "--library-path", ".", "./" + os.path.basename(whole[3])]
        for words in (whole, below):
            self.assertEqual(self.figures(self.record_program(*words, "exact", "10", status=END), "touch_all")["allocations"], 10)

    def test_counts_bytes_and_leaks_are_exact(self):
        known = self.exact()
        for name, size in (("touch_all", 33), ("touch_tenth", 40), ("touch_none", 40), ("fill_by_read", 35),
                           ("calloc_read", 36)):
            site = self.figures(known, name)
            self.assertEqual((site["allocations"], site["frees"], site["live"]), (10, 10, 0), name)
            self.assertEqual((site["bytes"], site["peak_bytes"]), (10 * size * MIB, size * MIB), name)
            self.assertEqual(site["large"], 10)
        self.assertEqual(self.figures(known, "calloc_read")["callocs"], 10)
        small = self.figures(known, "small_blocks")
        self.assertEqual(small["allocations"], 200001)
        self.assertEqual(small["peak_bytes"], 200000 * 64 + 200000 * 8)
        vector = self.figures(known, "grow_vector")
        self.assertEqual((vector["allocations"], vector["bytes"]), (150, 10 * 4 * (2 ** 15 - 1)))
        leaks = self.figures(known, "leak")
        self.assertEqual((leaks["live"], leaks["live_bytes"]), (10, 10000))
        grown = self.figures(known, "grow_in_steps")
        self.assertEqual((grown["allocations"], grown["reallocs"], grown["live"]), (100, 99, 0))
        self.assertEqual(grown["peak_bytes"], 10000)
        self.assertEqual(known["lost_events"], 0)
        self.assertEqual(known["meta"]["odd_events"], 0)
        self.assertEqual(known["unwind_wrong"], 0)
        self.assertEqual(known["meta"]["exit"], {"status": END})
        self.assertEqual(known["damage"], "")

    def test_the_recorder_counts_nothing_of_its_own(self):
        # Without libstdc++ the recorder looks for an operator new that is not there.
        program = self.compile("c", "#include <stdlib.h>\nstatic void* volatile keep;\n"
                               "int main() { for (int i = 0; i < 300; ++i) keep = malloc(100); }\n", "-O1", "-fno-builtin", "-Wl,--as-needed")
        self.record_program(program)
        known = json.loads(self.execute(settings.tarn, "export", "--json", "x.prof", code=0).stdout)
        self.assertEqual(known["totals"]["allocations"], 300)

    def test_pages_are_those_that_were_touched(self):
        user, kernel = sees_faults()
        if not user or not small_pages():
            self.skipTest("page faults cannot be recorded here, or one fault may map several pages")
        known = self.exact()
        # The pages that the program touches, and one with malloc's header before each block.
        for name, mib in (("touch_all", 33), ("touch_tenth", 4), ("touch_none", 0), ("fill_by_read", 35)):
            site = self.figures(known, name)
            truth = 10 * (mib * MIB // PAGE + 1)
            if name == "fill_by_read" and not kernel:
                self.assertGreaterEqual(known["unseen_faults"], 0.99 * (truth - 10))
                truth = 10
            self.assert_near(site["fault_pages"], truth)
            self.assertEqual(site["checked_bytes"], 10 * {"touch_all": 33, "touch_tenth": 40, "touch_none": 40,
                                                          "fill_by_read": 35}[name] * MIB)
            self.assert_near(site["resident_bytes"], 10 * mib * MIB)
        self.assert_near(self.figures(known, "calloc_read")["fault_pages"], 10 * (922 + 0.1))
        self.assert_near(self.figures(known, "small_blocks")["fault_pages"], 200000 * 80 // PAGE + 391, 0.02)

    def test_of_a_very_long_block_pieces_are_looked_at_when_it_is_freed(self):
        program = self.compile("long", """#include <stdlib.h>
            #include <string.h>
            int main() {
              for (int i = 0; i < 4; ++i) {
                char* volatile block = (char*)malloc(1ul << 30);
                memset(block, 1, 64ul << 20);
                free(block);
              }
            }""", "-O1", "-g", "-fno-builtin")
        site = self.figures(self.record_program(program), "main")
        self.assert_near(site["checked_bytes"], 4 * 1024 * MIB)
        self.assert_near(site["resident_bytes"], 4 * 64 * MIB)

    def test_peak_resident_is_the_kernels_however_short(self):
        for mode in ("sample", "full"):
            known = self.profile("spike", mode=mode)
            truth = 1024 * int(self.result.stdout.split()[0])
            self.assertGreater(truth, 200 * MIB)
            self.assertEqual(known["meta"]["peak_resident_exact"], True)
            self.assert_near(known["meta"]["peak_resident_bytes"], truth, 0.001)
            self.assert_near(known["most_resident"], truth, 0.001)
            # One row each 10 ms; a busy machine may miss three of four.
            self.assertGreaterEqual(known["counters"], known["meta"]["duration_ns"] / 1e9 * 100 / 4)

    def test_every_entry_point(self):
        known = self.profile("entries")
        site = self.figures(known, "every_entry")
        self.assertEqual((site["allocations"], site["frees"]), (12, 12))
        self.assertEqual(site["bytes"], 15 + 100 + 256 + 90 + 10 + 10 + 100 + 1 + 10 + 64 + 128 + 4)

    def test_events_are_kept(self):
        known = self.profile("churn", "100000")
        self.assertGreaterEqual(known["events"]["malloc"], 100000)
        self.assertGreaterEqual(known["events"]["free"], 100000)
        self.assertEqual(self.profile("churn", "1000", options=["--no-events"])["events"]["rows"], 0)

    def test_threads(self):
        known = self.profile("threads", "64")
        self.assertEqual(self.figures(known, "churn")["allocations"], 64 * 5000)
        self.assertEqual(self.figures(known, "leak")["live"], 64)
        self.assertEqual(known["threads"].count("worker"), 64)
        self.assertEqual(known["lost_events"], 0)

    def test_threads_one_after_another(self):
        known = self.profile("chain", "2000")
        self.assertEqual(self.figures(known, "churn")["allocations"], 20000)
        self.assertEqual(len(known["threads"]), 2001)

    def test_small_stacks_and_deep_ones(self):
        self.assertEqual(self.figures(self.profile("small-stack"), "churn")["allocations"], 1000)
        known = self.profile("deep", "500")
        paths = [site["frames"] for site in known["sites"] if "leak" in site["label"]]
        self.assertEqual(len(paths), 1)
        self.assertEqual(sum("deep" in frame for frame in paths[0]), 501)
        self.assertEqual(self.figures(self.profile("deep", "5000"), "leak")["allocations"], 1)

    def test_frees_by_another_thread(self):
        site = self.figures(self.profile("hand-over", "5000"), "operator()")
        self.assertEqual((site["allocations"], site["foreign_frees"]), (5000, 5000))

    def test_own_mappings(self):
        known = self.profile("mappings")
        site = self.figures(known, "own_mappings")
        self.assertEqual((site["maps"], site["mapped_bytes"]), (1, 8 * MIB))
        if sees_faults()[0] and small_pages():
            # On a busy machine the kernel may drop events; unseen_faults counts the faults of those.
            self.assertEqual(known["other_faults"] // 512, 0, "faults of the mapping were joined to no site")
            self.assert_near(site["fault_pages"] + known["unseen_faults"], 4 * MIB // PAGE)
            self.assertGreater(site["fault_pages"], 0)

    def test_sampled_sums_are_near(self):
        known = self.profile("churn", "3000000", mode="sample", options=["--sample", "64K"])
        site = self.figures(known, "churn")
        truth = sum(16 + size for size in range(256)) * 3000000 / 256
        # 6,600 samples: five standard deviations are 6 %.
        self.assert_near(site["bytes"], truth, 0.07)
        self.assert_near(site["allocations"], 3000000, 0.07)
        self.assert_near(site["frees"], site["allocations"], 0.001)
        # Short programs get more samples, unless a distance is given. 420 samples: five standard deviations are 31 %.
        short = self.figures(self.profile("churn", "100000", mode="sample"), "churn")
        self.assert_near(short["allocations"], 100000, 0.31)
        self.assertGreater(short["samples"], 300)
        given = self.figures(self.profile("churn", "100000", mode="sample", options=["--sample", "512K"]), "churn")
        self.assertLess(given["samples"], 100)
        large = self.figures(self.profile("exact", "5", mode="sample"), "touch_all")
        self.assertEqual((large["allocations"], large["bytes"]), (5, 5 * 33 * MIB))

    def test_faults_alone(self):
        if not sees_faults()[0] or not small_pages():
            self.skipTest("page faults cannot be recorded here, or one fault may map several pages")
        known = self.profile("mappings", mode="faults")
        faults = sum(site["figures"]["faults"] for site in known["sites"]
                     if any("own_mappings" in frame for frame in site["frames"]) or "memset" in site["label"])
        self.assert_near(faults, 4 * MIB // PAGE, 0.05)
        self.assertIn("[anonymous]", {site["type"] for site in known["sites"]})
        static = self.compile("static", """#include <cstring>
            #include <cstdlib>
            int main() { char* block = static_cast<char*>(malloc(9 << 20)); memset(block, 1, 9 << 20);
                         return block[77] - 1; }""", "-static", "-O0")
        known = self.record_program(static, mode="faults")
        self.assertRegex(self.result.stderr, r"for .* page faults, by the code that touched the memory(; .* not seen)?\n")
        self.assertNotIn("of 0 ns processor time", self.result.stderr)  # it may end before the system's clock ticks
        self.assertGreaterEqual(sum(site["figures"]["faults"] for site in known["sites"]), 9 * MIB // PAGE)

    def test_summary_and_streams(self):
        self.profile("exact", "2")
        self.assertEqual(self.result.stdout, "end\n")
        self.assertIn(" in malloc and free", self.result.stderr)
        self.assertIn("its resident memory reached", self.result.stderr)
        self.assertIn("touch_all", self.result.stderr)
        self.assertIn("x.prof", self.result.stderr)
        self.profile("churn", "10", options=["--quiet"])
        self.assertEqual(self.result.stderr, "")

    def test_summary_as_json(self):
        self.profile("churn", "30000", options=["--json"])
        summary = json.loads(self.result.stderr)
        self.assertEqual(summary["exit_status"], END)
        self.assertTrue(summary["files"][0]["path"].endswith("x.prof"))
        self.assertGreater(summary["program"]["allocations"], 20000)

    def test_names_of_files(self):
        self.execute(settings.tarn, "profile", "-q", "--", settings.profile_target, "churn", "10", code=END)
        self.assertEqual(len(glob.glob(self.path("tarn-cli_profile_target-*.prof"))), 1)

    def test_a_file_is_named_by_how_the_program_was_called(self):
        # As /usr/bin/redis-server is a link to redis-check-rdb.
        os.symlink(settings.profile_target, self.path("server"))
        result = self.execute(settings.tarn, "profile", "--json", "--", "./server", "churn", "10", code=END)
        written = json.loads(result.stderr)["files"][0]
        self.assertEqual((written["program"], written["path"]), ("server", f"tarn-server-{written['pid']}.prof"))
        meta = self.dump(self.path(written["path"]))["meta"]
        self.assertEqual((meta["command"], meta["program"]), ("server", os.path.realpath(settings.profile_target)))

    def test_refusals(self):
        for code, phrase, *words in ((125, "from 1 KiB to 1 GiB", "--sample", "1", "--", settings.profile_target),
                                     (127, "no such program", "--", "/no/such"), (125, "profile")):
            self.assert_refused(self.execute(settings.tarn, "profile", *words), code, phrase)
