# SPDX-License-Identifier: MIT
"""End-to-end: `tarn show --by rss` is compared with the kernel's figures, `tarn show --by leaks` with LeakSanitizer."""
import json
import os
import re
import resource
import signal
import sys

from harness import settings
from profile_test import MIB, ProfileBase


class rss(ProfileBase):
    def split(self, *words, mode="full", options=()):
        self.profile(*words, mode=mode, options=options)
        result = self.execute(settings.tarn, "show", "--by", "rss", "--json", "-n", "0", self.path("x.prof"), code=0)
        return json.loads(result.stdout)

    def test_the_first_line_has_the_sum_of_the_others(self):
        self.split("parts")
        shown = self.execute(settings.tarn, "show", "--by", "rss", self.path("x.prof"), code=0).stdout
        told = re.search(r"^resident (\S+ \S+) at ", shown).group(1)
        self.assertRegex(shown, rf"(?m)^ *{re.escape(told)} +100 %  sum of all mappings$")

    def part(self, split, kind, function):
        return sum(part["bytes"] for part in split["parts"][kind] if function in part["name"])

    def test_parts_sum_to_what_is_resident(self):
        for mode in ("sample", "full"):
            split = self.split("parts", mode=mode)
            at = split["at"]
            self.assert_near(at["sum"], at["resident_bytes"], 0.02)
            self.assert_near(at["resident_bytes"], split["peak_resident_bytes"], 0.05)
            # The target has a block of 40 MiB, half of it written; 16 MiB of small blocks, every second one freed; 24
            # MiB mapped, a third of it written; 6 MiB of static data; 3 MiB of a thread's stack.
            self.assert_near(at["live"] + at["rounding"] + at["kept"], 36 * MIB, 0.05)
            self.assert_near(at["live"], 28 * MIB, 0.02 if mode == "full" else 0.35)
            self.assert_near(at["mapped"], 8 * MIB, 0.01)
            self.assert_near(at["stacks"], 3 * MIB, 0.15)
            self.assertGreaterEqual(at["written"], 6 * MIB)
            self.assertLessEqual(at["other"], 1 * MIB)
            self.assert_near(at["untouched"], 20 * MIB, 0.05 if mode == "full" else 0.35)
            self.assert_near(self.part(split, "live", "split_large"), 20 * MIB, 0.01)
            self.assert_near(self.part(split, "mapped", "split_mapped"), 8 * MIB, 0.01)
            self.assertTrue(any("libc" in part["name"] for part in split["parts"]["files"]))

    def test_memory_without_a_function_keeps_its_name(self):
        os.mkdir(self.path("App (x86)<2>"))
        data = self.write("App (x86)<2>/data", "x" * MIB)
        program = self.compile("named", """
            #include <fcntl.h>
            #include <string.h>
            #include <sys/mman.h>
            #include <unistd.h>
            int main(int, char** words) {
              volatile char sum = 0;
              const char* file = (char*)mmap(nullptr, 1 << 20, PROT_READ, MAP_PRIVATE, open(words[1], O_RDONLY), 0);
              for (int i = 0; i < 1 << 20; i += 4096) sum = sum + file[i];
              memset(mmap(nullptr, 8 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 1, 8 << 20);
              usleep(100000);
            }""", "-O0")
        self.record_program(program, data)
        split = json.loads(self.execute(settings.tarn, "show", "--by", "rss", "--json", "-n", "0", self.path("x.prof"),
                                        code=0).stdout)
        self.assert_near(self.part(split, "shared", "/dev/zero (deleted)"), 8 * MIB, 0.05)
        self.assert_near(self.part(split, "files", "App (x86)<2>/data"), 1 * MIB, 0.05)

    def test_threads_that_allocate_little_cost_the_recorder_little(self):
        program = self.compile("crowd", """
            #include <pthread.h>
            #include <stdlib.h>
            #include <unistd.h>
            static pthread_barrier_t all_there;
            static void* run(void*) {
              for (int i = 0; i < 400; ++i) { void* volatile one = malloc(2000 + i); free(one); }
              pthread_barrier_wait(&all_there);
              usleep(500000);
              return nullptr;
            }
            int main(int, char** words) {
              const int count = atoi(words[1]);
              pthread_barrier_init(&all_there, nullptr, count);
              pthread_t* threads = new pthread_t[count];
              for (int i = 0; i < count; ++i) pthread_create(threads + i, nullptr, run, nullptr);
              for (int i = 0; i < count; ++i) pthread_join(threads[i], nullptr);
            }""", "-O0", "-pthread")
        path = self.path("x.prof")
        for mode in ("sample", "full"):
            taken = {}
            for count in (10, 210):
                self.execute(settings.tarn, "profile", "-q", "--mode", mode, "-o", path, "--", program, str(count), code=0)
                rows = json.loads(self.execute(settings.tarn, "show", "--by", "rss", "--json", path, code=0).stdout)["over_time"]
                taken[count] = max(row["recorder"] for row in rows)
            self.assertLess((taken[210] - taken[10]) / 200, 32 << 10, mode)

    def test_the_peak_is_not_the_moment_after_everything_was_freed(self):
        program = self.compile("free_all", """
            #include <stdlib.h>
            #include <string.h>
            #include <sys/mman.h>
            #include <unistd.h>
            static void* all[20000];
            void* volatile pin;
            int main() {
              for (void*& one : all) { one = malloc(2000); memset(one, 1, 2000); }
              pin = malloc(100);
              usleep(300000);
              for (void* one : all) free(one);
              pin = memset(mmap(nullptr, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 4 << 20);
              usleep(200000);
            }""", "-O0")
        path = self.path("x.prof")
        self.execute(settings.tarn, "profile", "-q", "--mode", "full", "-o", path, "--", program, code=0)
        at = json.loads(self.execute(settings.tarn, "show", "--by", "rss", "--json", path, code=0).stdout)["at"]
        self.assert_near(at["live"], 20000 * 2000, 0.1)
        page = self.path("x.html")
        self.execute(settings.tarn, "report", "-o", page, path, code=0)
        memory = json.loads(self.read(page).split('id="data">', 1)[1].split("</script>", 1)[0])["memory"]
        self.assertEqual(memory["time_ns"], at["time_ns"])

    def test_a_planted_culprit_pins_most_memory(self):
        for seed in range(1, 11):
            self.profile("pinned", str(seed), mode="full")
            grown, live = (int(word) for word in re.search(r"^(-?\d+) (\d+)$", self.result.stdout, re.MULTILINE).groups())
            result = self.execute(settings.tarn, "show", "--by", "pinned", "--json", self.path("x.prof"), code=0)
            pinned = json.loads(result.stdout)
            self.assertIn("pin_culprit", pinned["sites"][0]["function"], f"seed {seed}: {pinned['sites'][:3]}")
            self.assertGreater(pinned["sites"][0]["pinned_bytes"], 3 * pinned["sites"][1]["pinned_bytes"])
            self.assertIn("pool", pinned["sites"][0]["would_help"])
            total = self.execute(settings.tarn, "show", "--by", "rss", "--at", "end", "--json", self.path("x.prof"), code=0)
            at = json.loads(total.stdout)["at"]
            self.assert_near(pinned["pinned_bytes"] + pinned["near_no_block_bytes"], at["kept"], 0.01)
            # What the program itself has seen; standard output's buffer and the like beside.
            self.assert_near(at["kept"] + at["rounding"], grown - live, 0.05)

    def test_a_sampled_profile_does_not_show_who_pins_memory(self):
        self.profile("pinned", "1", mode="sample")
        result = self.execute(settings.tarn, "show", "--by", "pinned", self.path("x.prof"))
        self.assert_refused(result, 125, "does not tell which blocks pin memory")

    def test_a_merged_profile_has_no_resident_memory_and_is_refused(self):
        path = self.path("old.prof")
        self.profile("exact", "1", mode="full")
        merged = self.path("merged.prof")
        source = self.path("x.prof")
        os.rename(source, path)
        self.profile("exact", "1", mode="full")
        self.execute(settings.tarn, "merge", path, source, "-o", merged, code=0)
        result = self.execute(settings.tarn, "show", "--by", "rss", merged)
        self.assert_refused(result, 125, "does not contain what the resident memory consisted of")


class trouble(ProfileBase):
    """The half page that `tarn profile` ends with begins with what hurts most."""

    def summary(self, words, *options, **more):
        said = self.execute(settings.tarn, "profile", *options, "-o", self.path("x.prof"), "--", *words, **more)
        return said.returncode, said.stderr

    def test_a_program_whose_address_space_ends(self):
        program = self.compile("fills", """
            #include <cstring>
            #include <unistd.h>
            #include <vector>
            __attribute__((noinline)) char* fill() { return static_cast<char*>(memset(new char[8 << 20], 1, 8 << 20)); }
            int main() { std::vector<char*> all; for (;;) { all.push_back(fill()); usleep(5000); } }""", "-g", "-O1")
        limits = (1 << 30, resource.getrlimit(resource.RLIMIT_AS)[1])
        status, said = self.summary([program], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limits))
        self.assertEqual(status, -signal.SIGABRT, said)
        first, *rest = said[said.index("tarn: killed"):].splitlines()
        self.assertIn("killed by signal 6", first)
        self.assertIn("the limit of its address space (ulimit -v) is 1 GiB", first)
        self.assertRegex("\n".join(rest), r"live blocks\n +\S+ MiB +\S+ %    fill")

    def test_a_script_whose_address_space_ends(self):
        script = self.write("eats.py", "kept = []\nwhile True:\n    kept.append(bytes(100000))\n", 0o644)
        limits = (1 << 29, resource.getrlimit(resource.RLIMIT_AS)[1])
        status, said = self.summary([os.path.realpath(sys.executable), script], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limits))
        self.assertEqual(status, 1, said)
        self.assertIn("MemoryError", said)
        self.assertRegex(said, r"tarn: it ended with status 1; .* \(ulimit -v\) is 512 MiB, of which it used [45]\d\d(\.\d)? MiB\n")

    def test_what_grows_to_the_end(self):
        program = self.compile("grows", """
            #include <csignal>
            #include <cstdlib>
            #include <cstring>
            #include <unistd.h>
            void* volatile last;
            __attribute__((noinline)) void leak() { last = memset(malloc(300000), 1, 300000); }
            __attribute__((noinline)) void* work() { return memset(malloc(5000000), 1, 5000000); }
            int main() { for (int i = 0; i < 200; ++i) { leak(); free(last = work()); usleep(10000); } raise(SIGTERM); }""", "-g", "-O1")
        for mode in ("sample", "full"):
            status, said = self.summary([program], "--mode", mode)
            self.assertEqual(status, -signal.SIGTERM, said)
            self.assertRegex(said, r"^tarn: its live blocks still grew at the end: from \S+ MiB at .* to \S+ MiB at ")
            self.assertRegex(said, r"what grew since .*, by place.*\n +\+\S+(?: ± \S+)? MiB  leak\(\) \(")
            self.assertNotIn("work()", said.split("what grew")[1].split("memory cost")[0])

    def test_a_script_that_eats_memory(self):
        script = self.write("eats.py", "import time\ndef load():\n    return [bytes(1000) for _ in range(300000)]\n"
                            "kept = load()\ntime.sleep(1)\n", 0o644)
        python = os.path.realpath(sys.executable)
        for allocator in ("pymalloc", "malloc"):
            path = self.path("x.prof")
            self.execute(settings.tarn, "profile", "-q", "-o", path, "--", python, script, code=0,
                         variables=dict(PYTHONMALLOC=allocator))
            shown = json.loads(self.execute(settings.tarn, "show", "--by", "rss", "--json", path, code=0).stdout)
            # bytes(1000) takes 1033 bytes, which malloc and pymalloc's arenas hold.
            held = shown["at"]["live"] + shown["at"]["mapped"]
            self.assertGreater(held, 0.9 * 300000 * 1033, f"{allocator}: {shown['at']}")


class leaks(ProfileBase):
    # Blocks and bytes that are lost, then those that only lost blocks lead to.
    TRUTH = {"lost": (10, 10000, 0, 0), "indirect": (2, 208, 7, 728), "reachable": (0, 0, 0, 0),
             "threads": (7, 2100, 0, 0), "detached": (0, 0, 0, 0), "freed": (0, 0, 0, 0)}

    def record(self, word, mode="full"):
        path = self.path(f"{word}.prof")
        self.execute(settings.tarn, "profile", "-q", "--mode", mode, "-o", path, "--", settings.leak_target, word,
                     code=0)
        return path

    def leaks(self, path, *options):
        result = self.execute(settings.tarn, "show", "--by", "leaks", "--json", *options, path)
        return result.returncode, json.loads(result.stdout), result.stderr

    def sanitizers(self, word):
        """Blocks and bytes that LeakSanitizer reports; None if it does not work here."""
        if not os.path.exists(settings.leak_target + "_lsan"):
            return None
        result = self.execute(settings.leak_target + "_lsan", word,
                              env={**os.environ, "LSAN_OPTIONS": "exitcode=23", "LD_PRELOAD": ""})
        if result.returncode not in (0, 23) or "fatal error" in result.stderr:
            return None
        found = re.findall(r"leak of (\d+) byte\(s\) in (\d+) object", result.stderr)
        return sum(int(blocks) for _, blocks in found), sum(int(size) for size, _ in found)

    def test_leaks_are_those_of_leak_sanitizer(self):
        for word, truth in self.TRUTH.items():
            status, told, errors = self.leaks(self.record(word))
            self.assertTrue(told["known"], f"{word}: {told['reason']}")
            found = (told["lost"]["blocks"], told["lost"]["bytes"], told["indirect"]["blocks"], told["indirect"]["bytes"])
            self.assertEqual(found, truth, f"{word}: {told['sites']} {errors}")
            self.assertEqual(status, 1 if truth[0] else 0, word)
            sanitizer = self.sanitizers(word)
            if sanitizer is not None:
                self.assertEqual((truth[0] + truth[2], truth[1] + truth[3]), sanitizer, word)

    def test_suppressions(self):
        path = self.record("lost")
        known = self.write("known.supp", "# known\nleak:other\nleak:lose_bl*ks\n", 0o644)
        status, told, _ = self.leaks(path, "--suppressions", known)
        self.assertEqual((status, told["lost"]["blocks"], told["suppressed"]["blocks"]), (0, 0, 10))
        other = self.write("other.supp", "leak:lose_ring\n", 0o644)
        self.assertEqual(self.leaks(path, "--suppressions", other)[0], 1)
        wrong = self.write("wrong.supp", "leak:a\nrace:b\n", 0o644)
        result = self.execute(settings.tarn, "show", "--by", "leaks", "--suppressions", wrong, path)
        self.assert_refused(result, 125, "wrong.supp:2", "leak:PATTERN")

    def test_mode_sample_says_that_reachability_is_not_known(self):
        status, told, errors = self.leaks(self.record("lost", "sample"))
        self.assertEqual((status, told["known"]), (125, False))
        self.assertIn("mode sample", told["reason"])
        for row in told["sites"]:
            self.assertIsInstance(row["live"], int)
            self.assertGreater(row["live"], 0)
        self.assertIn("mode sample", errors)
        self.assertIn("--mode full", errors)
