# SPDX-License-Identifier: MIT
"""End-to-end: `tarn profile` on programs with known allocations, and on ones that crash, fork, exec or are killed."""
import errno
import glob
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

from cost_test import NOBODY, forbid_perf_event_open
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


class profile_life(ProfileBase):
    DAEMON = """
        #include <stdlib.h>
        #include <unistd.h>
        void* volatile last;
        __attribute__((noinline)) void serve() { for (int i = 0; i < 20; ++i) { last = malloc(2000000); usleep(20000); } }
        int main(int count, char**) {
          if (count > 1) { if (fork() == 0) { close(2); serve(); sleep(20); } return 3; }
          return daemon(1, 0) == 0 ? (serve(), 0) : 1;
        }"""

    def test_a_program_that_goes_on_in_the_background_is_recorded(self):
        program = self.compile("server", self.DAEMON, "-g", "-O1")
        result = self.execute(settings.tarn, "profile", "--mode", "full", "-o", "x.prof", "--", program, code=0)
        self.assertIn("goes on in the background", result.stderr)
        files = glob.glob(self.path("x-*.prof"))
        self.assertEqual(len(files), 1, result.stderr)
        self.assertEqual(self.figures(self.dump(files[0]), "serve")["allocations"], 20)

    def test_a_signal_ends_the_recording_of_the_background(self):
        program = self.compile("server", self.DAEMON.replace("i < 20", "i < 2000"), "-g", "-O1")
        tarn = self.launch(settings.tarn, "profile", "-o", "x.prof", "--", program, stderr=subprocess.PIPE)
        line = tarn.stderr.readline()
        self.assertIn("goes on in the background", line)
        server = int(re.search(r"process (\d+)", line)[1])
        self.addCleanup(os.kill, server, signal.SIGKILL)
        tarn.send_signal(signal.SIGINT)
        said = tarn.communicate(timeout=30)[1]
        self.assertEqual(tarn.returncode, 0, said)
        self.assertIn("no longer recorded", said)
        os.kill(server, 0)

    def test_a_descendant_that_is_no_daemon_is_only_named(self):
        program = self.compile("starter", self.DAEMON, "-g", "-O1")
        begin = time.monotonic()
        result = subprocess.run([settings.tarn, "profile", "-o", "x.prof", "--", program, "child"], stderr=subprocess.PIPE,
                                stdout=subprocess.DEVNULL, text=True, check=False, timeout=30, cwd=self.folder,
                                env=self.environment())
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertLess(time.monotonic() - begin, 15)
        self.assertRegex(result.stderr, r"still running, and no longer recorded: starter \(process \d+\)")
        os.kill(int(re.search(r"recorded: starter \(process (\d+)", result.stderr)[1]), signal.SIGKILL)

    def test_program_that_crashes_or_is_killed(self):
        for what, number in (("crash", signal.SIGSEGV), ("kill", signal.SIGKILL)):
            known = self.profile(what, "1000", status=-number)
            self.assertEqual(self.figures(known, "leak")["live"], 1000)
            self.assertEqual(known["meta"]["exit"], {"signal": number})

    def test_operators_of_the_program_serve_it(self):
        operators = """
            #include <cstdio>
            #include <cstdlib>
            #include <new>
            int made, dropped;
            void* operator new(std::size_t size) { ++made; return std::malloc(size); }
            void operator delete(void* block) noexcept { ++dropped; std::free(block); }"""
        main = """
            #include <cstdio>
            #include <new>
            extern int made, dropped;
            struct point { long x, y; ~point() {} };
            int main() {
              for (int i = 0; i < 1000; ++i) { delete new point; delete[] new point[3]; delete[] new long[2]; }
              for (int i = 0; i < 1000; ++i) delete new (std::nothrow) point;
              std::printf("%d %d\\n", made, dropped);
            }"""
        plain = ("-O1", "-fno-builtin", "-w")
        library = self.compile("liboperators.so", operators, "-shared", "-fPIC", *plain)
        for program in (self.compile("own", operators + main, *plain),
                        self.compile("shared", main, *plain, "-x", "none", library)):
            alone = self.execute(program, code=0)
            for mode in ("sample", "full"):
                with self.subTest(program, mode=mode):
                    self.record_program(program, mode=mode)
                    self.assertEqual(self.result.stdout, alone.stdout)

    def test_a_damaged_heap_is_diagnosed_as_without_a_recorder(self):
        program = self.compile("bad", """
            #include <cstdlib>
            #include <cstring>
            int main(int count, char** words) {
              void* volatile kept = calloc(1, 100);
              const char* what = words[1];
              void* volatile again = nullptr;
              if (!strcmp(what, "inside")) free((char*)kept + 8);
              if (!strcmp(what, "overrun")) { memset((char*)kept - 8, 0x41, 8); free(kept); }
              if (!strcmp(what, "freed")) {
                void* volatile large = malloc(4 << 20);
                memset(large, 1, 4 << 20);
                again = realloc(large, 0);
              }
              return again != nullptr ? 1 : 0;
            }""", "-w", "-O1", "-fno-builtin")
        for what in ("inside", "overrun", "freed"):
            alone = self.execute(program, what)
            for mode in ("full", "sample"):
                with self.subTest(what, mode=mode):
                    self.record_program(program, what, mode=mode, status=alone.returncode)
                    self.assertIn(alone.stderr, self.result.stderr)

    def test_limits_that_leave_the_recorder_no_memory_are_named(self):
        result = self.execute(settings.tarn, "profile", "-o", "x.prof", "--", settings.profile_target, "churn", "10",
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)), code=END)
        self.assertIn("ulimit -f", result.stderr)

    def test_interruption_is_the_programs(self):
        path = self.path("x.prof")
        process = self.launch(settings.tarn, "profile", "--mode", "full", "-o", path, "--", settings.profile_target, "wait",
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertEqual(process.stdout.readline(), "waiting\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), -signal.SIGINT)
        self.assertEqual(self.figures(self.dump(path), "churn")["allocations"], 1000)

    def test_many_children(self):
        for what, count in (("children", 1000), ("children-together", 200)):
            known = self.profile(what, str(count))
            self.assertEqual(len(glob.glob(self.path("*.prof"))), 1)
            self.assertEqual(known["meta"]["small_children"]["processes"], count)
            # They are added to the program that forked them, without the blocks that lived when they ended.
            self.assertEqual(self.figures(known, "churn")["allocations"], 50 * count)
            self.assertEqual(self.figures(known, "leak")["allocations"], 10 * count)
            self.assertEqual(self.figures(known, "leak")["live"], 0)

    def test_children_that_gave_up_their_rights(self):
        # Each child closes its descriptors; one then changes its root folder, one its user, one its network. All are
        # recorded, although they do so before their first allocation.
        program = self.compile("leaver", """#include <fcntl.h>
            #include <sched.h>
            #include <sys/wait.h>
            #include <unistd.h>
            #include <cstdlib>
            [[gnu::noinline]] void churn() {
              for (int i = 0; i < 20000; ++i) { void* volatile block = std::malloc(100); std::free(block); }
            }
            int main(int, char** words) {
              for (int what = 0; what < (getuid() == 0 ? 4 : 1); ++what) {
                const pid_t child = fork();
                if (child == 0) {
                  for (int file = 0; file < 256; ++file) close(file);
                  if (what == 1 && (chroot(words[1]) != 0 || chdir("/") != 0)) _exit(3);
                  if (what == 2 && setuid(65534) != 0) _exit(3);
                  if (what == 3 && unshare(CLONE_NEWNET) != 0) _exit(3);
                  churn();
                  _exit(0);
                }
                int status = 0;
                waitpid(child, &status, 0);
                if (status != 0) return 1;
              } }""", "-g", "-O1", "-fno-builtin")
        empty = self.path("empty")
        os.mkdir(empty)
        path = self.path("l.prof")
        result = self.execute(settings.tarn, "profile", "--mode", "full", "-o", path, "--", program, empty)
        if result.returncode == 1:
            self.skipTest("this user may not change root folder, user or network")
        self.assertEqual(result.returncode, 0, result.stderr)
        files = glob.glob(self.path("l-*.prof"))
        self.assertEqual(len(files), 4 if os.getuid() == 0 else 1, result.stderr)
        for file in files:
            self.assertEqual(self.figures(self.dump(file), "churn")["allocations"], 20000)

    def test_a_child_that_allocates_much_has_a_file(self):
        self.profile("large-child")
        files = sorted(glob.glob(self.path("x*.prof")))
        self.assertEqual(len(files), 2)
        counts = sorted(self.figures(self.dump(path), "churn")["allocations"] for path in files)
        self.assertEqual(counts, [100, 30000])

    def test_a_process_id_that_is_used_again_at_once(self):
        program = self.compile("again", """#include <fcntl.h>
            #include <sys/wait.h>
            #include <unistd.h>
            #include <cstdio>
            #include <cstdlib>
            [[gnu::noinline]] void churn(int count) {
              for (int i = 0; i < count; ++i) { void* volatile block = std::malloc(100); std::free(block); }
            }
            int main(int, char** words) {
              pid_t last = 0;
              for (int child = 0; child < 2; ++child) {
                if (child == 1) {
                  const int file = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
                  if (file < 0 || dprintf(file, "%d", last - 1) <= 0) return 3;
                  usleep(atoi(words[1]));
                }
                const pid_t now = fork();
                if (now == 0) { churn(1000 + child); _exit(0); }
                waitpid(now, nullptr, 0);
                if (child == 1 && now != last) return 4;
                last = now;
              } }""", "-g", "-O1", "-fno-builtin")
        path = self.path("x.prof")
        for pause in ("0", "12000"):
            for _ in range(20):
                result = self.execute(settings.tarn, "profile", "--mode", "full", "-o", path, "--", program, pause)
                if result.returncode != 4:  # another program has got the id
                    break
            if result.returncode in (3, 4):
                self.skipTest("this user may not choose the next process's id, or it is another program's each time")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.figures(self.dump(path), "churn")["allocations"], 2001)

    def test_exec(self):
        known = self.record_program("sh", "-c", f"exec {settings.profile_target} churn 500", status=END)
        self.assertEqual(self.figures(known, "churn")["allocations"], 500)

    def used_by(self, *words):
        """Processor time of a program that is not recorded, the least of three runs, in ns."""
        used = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.execute(*words, code=0)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used.append(1e9 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime))
        return min(used)

    def recorded(self, *words, mode="sample"):
        self.record_program(*words, mode=mode, options=["--json"])
        return json.loads(self.result.stderr.splitlines()[-1])["program"]

    def test_loading_belongs_to_the_program(self):
        # The loader relocates 8 MB before main, and takes 2,000 page faults for it.
        program = self.compile("loads", '__asm__(".data\\n.balign 8\\n.rept 1000000\\n.quad main\\n.endr\\n.text\\n");\n'
                               "#include <stdlib.h>\nstatic void* volatile keep;\n"
                               "int main(int, char**) { keep = malloc(100); }\n", "-fPIE", "-pie")
        used = self.used_by(program)
        user, _ = sees_faults()
        chain = ["sh", "-c", "exec env X=1 " + program]
        for words, mode in [([program], "sample"), ([program], "full")] + ([(chain, "sample")] if user else []):
            known = self.recorded(*words, mode=mode)
            whole = known["user_ns"] + known["system_ns"]
            self.assertGreater(whole, 0.7 * used, words)
            self.assertLess(whole, 3 * used + 10e6, words)
            self.assertGreater(known["meta"]["duration_ns"], 0.5 * used)
            self.assertGreater(known["other_faults"] + known["unseen_faults"], 1900)
            self.assertLess(known["fault_ns"] + known["unmap_ns"], 0.9 * known["processor_ns"])

    def test_signal_handlers_that_allocate(self):
        known = self.profile("handlers", "1000000")
        site = self.figures(known, "churn")
        # Calls of a handler that interrupted the recorder itself are counted as lost.
        self.assertLessEqual(1000000, site["allocations"] + known["lost_events"])
        self.assertEqual(self.result.stdout, "end\n")

    def test_collector_killed(self):
        path = self.path("x.prof")
        with subprocess.Popen([settings.tarn, "profile", "--mode", "full", "-o", path, "--", settings.profile_target,
                               "churn", "60000000"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env=self.environment()) as process:
            while not os.path.exists(path) or os.path.getsize(path) < 100000:
                time.sleep(0.05)
            process.kill()
            process.wait()
            # The program goes on to its end, and what was written can be read.
            self.assertEqual(process.stdout.read(), "end\n")
        self.assertGreaterEqual(self.dump(path)["events"]["rows"], 1000)

    def test_full_disk(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, resource.RLIM_INFINITY))

        known = self.profile("churn", "3000000", preexec_fn=small_files)
        self.assertEqual(self.figures(known, "churn")["allocations"], 3000000)
        self.assertEqual(known["events"]["rows"], 0)
        self.assertTrue(any("single events are left out" in one for one in known["meta"]["refused"]))

    def test_a_program_with_another_malloc(self):
        jemalloc = glob.glob("/usr/lib/*/libjemalloc.so.2")
        if not jemalloc:
            self.skipTest("jemalloc is not installed")
        program = self.compile("own", """#include <cstdlib>
            #include <cstdio>
            [[gnu::noinline]] void site() { void* volatile block = malloc(100); free(block); }
            int main() { for (int i = 0; i < 1000; ++i) site(); std::puts("end"); }""", "-g", "-O1", "-Wl,--no-as-needed",
                               "-x", "none", jemalloc[0])
        known = self.record_program(program)
        self.assertEqual(self.result.stdout, "end\n")
        self.assertIn("jemalloc", known["meta"]["allocator"])
        self.assertEqual(self.figures(known, "site")["allocations"], 1000)

    def test_libraries_loaded_later(self):
        plugin = self.compile("libplugin.so", """#include <cstdlib>
            extern "C" [[gnu::noinline]] void in_plugin() { void* volatile block = malloc(321); free(block); }""",
                              "-shared", "-fPIC", "-g")
        host = self.compile("host", f"""#include <dlfcn.h>
            int main() {{ for (int round = 0; round < 20; ++round) {{
                void* library = dlopen("{plugin}", RTLD_NOW);
                reinterpret_cast<void (*)()>(dlsym(library, "in_plugin"))();
                dlclose(library); }} }}""", "-g")
        known = self.record_program(host)
        self.assertEqual(self.figures(known, "in_plugin")["allocations"], 20)
        self.assertIn(os.path.realpath(plugin), {os.path.realpath(one["path"]) for one in known["modules"]})

    def test_without_page_fault_events(self):
        for error in (errno.EACCES, errno.ENOSYS):
            known = self.profile("exact", "3", preexec_fn=lambda error=error: forbid_perf_event_open(error))
            self.assertTrue(any("page faults cannot be seen" in one for one in known["meta"]["refused"]))
            site = self.figures(known, "touch_tenth")
            self.assertEqual(site["allocations"], 3)
            self.assertEqual(site["faults"], 0)
            if small_pages():
                # The resident bytes of blocks are still known, and the number of all faults.
                self.assert_near(site["resident_bytes"], 3 * 4 * MIB)
                self.assertGreater(known["unseen_faults"], 3 * 33 * MIB // PAGE)

    @unittest.skipIf(os.geteuid() != 0, "only root can become another user")
    def test_as_an_ordinary_user(self):
        folder = self.path("inst")
        os.makedirs(folder)
        os.chmod(self.folder, 0o777)
        names = {name: os.path.join(folder, os.path.basename(source)) for name, source in
                 (("tarn", settings.tarn), ("recorder", settings.recorder), ("target", settings.profile_target))}
        for source, copy in zip((settings.tarn, settings.recorder, settings.profile_target), names.values()):
            shutil.copy(source, copy)
        path = self.path("user.prof")
        self.execute(names["tarn"], "profile", "--mode", "full", "-o", path, "--", names["target"], "exact", "2",
                     user=NOBODY, group=NOBODY, extra_groups=[], cwd="/",
                     variables=dict(TARN_RECORDER=names["recorder"]), code=END)
        known = self.dump(path)
        site = self.figures(known, "touch_all")
        self.assertEqual(site["allocations"], 2)
        if "user mode are recorded" in known["meta"]["privilege"] and small_pages():
            self.assert_near(site["fault_pages"], 2 * (33 * MIB // PAGE + 1))
            self.assertGreaterEqual(known["unseen_faults"], 2 * 35 * MIB // PAGE * 0.99)

    def test_doctor(self):
        result = self.execute(settings.tarn, "doctor")
        self.assertIn(result.returncode, (0, 1))
        for phrase in ("page faults of a program", "kernel.perf_event_paranoid", "control group", "huge pages", "; tarn attach "):
            self.assertIn(phrase, result.stdout)
        refused = self.execute(settings.tarn, "doctor", "--json", preexec_fn=lambda: forbid_perf_event_open(errno.EPERM))
        self.assertEqual(refused.returncode, 1)
        faults = next(one for one in json.loads(refused.stdout)["facilities"] if one["key"] == "page_faults")
        self.assertEqual(faults["standing"], "missing")
        self.assertTrue(faults["missing"])
