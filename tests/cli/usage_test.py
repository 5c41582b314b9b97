# SPDX-License-Identifier: MIT
"""End-to-end: `tarn doctor --options`, help texts, mistyped words; and tests that need the real library."""
import json
import os
import resource

from harness import Base, settings, tarn


class options(Base):
    def test_table(self):
        result = tarn("doctor", "--options", variables={"TARN_DECAY_MS": "777"}, code=0)
        row = next(line for line in result.stdout.splitlines() if line.startswith("TARN_DECAY_MS"))
        self.assertEqual(row.split()[1:], ["777", "1000", "environment"])
        self.assertIn("Idle memory goes back", result.stdout)
        self.assertIn("9.8.7", result.stdout)

    def test_json(self):
        table = json.loads(tarn("doctor", "--options", "--json").stdout)
        self.assertEqual([one["name"] for one in table["options"]], ["decay_ms", "stats"])
        self.assertEqual(table["options"][0]["source"], "default")
        self.assertEqual(table["library"], settings.library)

    def test_library_without_options(self):
        library = self.compile("libplain.so", "int plain() { return 1; }", "-shared", "-fPIC")
        result = tarn("doctor", "--options", variables={"TARN_LIBRARY": library})
        self.assert_refused(result, 125, "does not answer", "TARN_LIBRARY")


class usage(Base):
    def test_help(self):
        for words in (["help"], ["--help"], ["-h"], ["help", "--help"], ["help", "help"]):
            result = tarn(*words)
            self.assertEqual(result.returncode, 0)
            self.assertIn("Examples:", result.stdout)
        for command in ("run", "compare", "cost"):
            self.assertEqual(tarn("help", command).stdout, tarn(command, "--help").stdout)
            self.assertIn(f"Usage: tarn {command}", tarn("help", command).stdout)

    def test_what_is_missing_or_wrong_is_named(self):
        self.assert_refused(tarn("run", "--plan", "no-plan-here.json", "--", "true"), 125, "no-plan-here.json")
        self.assert_refused(tarn("show", "--by", "foo", "x.prof"), 2, "must be sites, tree, rss, leaks or pinned")

    def test_help_fits_a_terminal(self):
        text = tarn("help").stdout
        commands = [line.split()[0] for line in text.splitlines() if line.startswith("  ") and line[2].isalpha()]
        pages = {"help": text} | {name: tarn(name, "--help").stdout for name in commands
                                  if name not in ("help", "tarn")}
        self.assertGreater(len(pages), 15)
        wide = [f"{name}: {line}" for name, page in pages.items() for line in page.splitlines() if len(line) > 80]
        self.assertEqual(wide, [])

    def test_too_few_descriptors(self):
        result = self.execute(settings.tarn, "profile", "--", "true",
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6)))
        self.assert_refused(result, 125, "Too many open files", "ulimit -n")
        self.assertNotIn("--mode", result.stderr)

    def test_version(self):
        self.assertRegex(tarn("--version").stdout, r"^tarn \d+\.\d+\.\d+\n$")

    def test_words_that_are_no_verbs(self):
        # What a view or a step of another verb might be called.
        for word, advice in (("sites", "tarn show"), ("leaks", "--by leaks"), ("flame", "tarn report"), ("detach", "attach --stop"),
                             ("options", "doctor --options"), ("rss", "--by rss"), ("tree", "--by tree")):
            self.assert_refused(tarn(word, "x"), 2, f"unknown command '{word}'", advice)
        self.assertEqual(tarn().returncode, 2)

    def test_links_no_allocator(self):
        trace = self.execute("ldd", settings.tarn, code=0).stdout
        for name in ("tarn", "jemalloc", "mimalloc", "tcmalloc"):
            self.assertNotIn(f"lib{name}", trace)


class real_library(Base):
    """Tests that the stand-in library cannot serve."""

    def test_every_option_is_explained(self):
        result = tarn("doctor", "--options", code=0)
        lines = result.stdout.splitlines()
        starts = [n for n, line in enumerate(lines) if line.startswith("TARN_")]
        self.assertGreater(len(starts), 3)
        for at in starts:
            self.assertRegex(lines[at + 1], r"^    [A-Z].*[^.]\.$")
            self.assertRegex(lines[at + 2], r"^    Accepts: .*[^.]\.$")

    def test_options_come_from_the_library(self):
        table = json.loads(tarn("doctor", "--options", "--json", variables={"TARN_DECAY_MS": "4321"}).stdout)
        decay = next(one for one in table["options"] if one["variable"] == "TARN_DECAY_MS")
        self.assertEqual((decay["value"], decay["source"]), ("4321", "environment"))
        for one in table["options"]:
            self.assertTrue(one["meaning"] and one["accepts"], one)

    def test_a_program_that_ends_in_its_sandbox(self):
        # It kills at each call but those that a program needs to end.
        program = self.compile("sandboxed", """
            #include <linux/filter.h>
            #include <linux/seccomp.h>
            #include <cstddef>
            #include <cstdio>
            #include <sys/prctl.h>
            #include <sys/syscall.h>
            int main() {
              static sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
                                             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
                                             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
              const sock_fprog program = {sizeof filter / sizeof *filter, filter};
              static char buffer[64];
              setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
              std::fputs("done", stdout);
              prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
              prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
              return 7;
            }""")
        for name, value in (("TARN_STATS", self.path("statistics")), ("TARN_STATS", "stderr"), ("TARN_PROFILE_FILE", self.path("heap"))):
            result = self.execute(program, variables={"LD_PRELOAD": settings.library, "TARN_PROFILE": "on", name: value})
            self.assertEqual((result.returncode, result.stdout, result.stderr), (7, "done", ""), value)

    def test_a_wrong_option_is_reported_once_for_a_tree_of_processes(self):
        program = "sort /dev/null; sh -c 'sort /dev/null; true'; TARN_DECAY=6 sort /dev/null; sort /dev/null"
        errors = tarn("run", "--", "sh", "-c", program, variables={"TARN_DECAY": "5", "TARN_GUARDED": "often"}).stderr
        # TARN_DECAY by the first process, and by the one that gets another value.
        self.assertEqual(errors.count("TARN_DECAY is not an option"), 2, errors)
        self.assertEqual(errors.count("TARN_GUARDED=often is not valid"), 1, errors)

    def test_statistics_arrive(self):
        figures = json.loads(tarn("run", "--json", "--", "ls", "/").stderr)
        self.assertEqual(figures["processes_reporting"], 1)
        self.assertIsInstance(figures["returned_bytes"], int)

    def test_cost(self):
        result = tarn("cost", "-r", "1", "--only", "tarn", "--json", "8M", code=0)
        ways = {one["way"]: one for one in json.loads(result.stdout)["results"]}
        self.assertEqual(ways["tarn"]["library"], settings.library)
        # tarn keeps the freed buffer, so its pages do not fault again.
        self.assertLess(ways["tarn"]["metrics"]["faults"]["median"], 100)

    def test_compare(self):
        tarn("compare", "-r", "3", "--touch", "16", "--only", "system,tarn", "--", "ls", "/", code=0)

    def test_a_library_opened_with_deepbind_is_named(self):
        # Such a library uses libc's malloc, so blocks that it gives to the program, or takes from it, may end the
        # process.
        os.mkdir(self.path("beside"))
        source = """#include <cstdio>
            #include <cstdlib>
            #include <cstring>
            extern "C" void* give() { return std::malloc(100); }
            extern "C" void take(void* block) { std::free(block); }
            extern "C" void own() { void* volatile block = std::malloc(100); std::free(block); }
            extern "C" void copy() { char* volatile text = strdup("text"); std::free(text); }
            extern "C" void read_line() {
              std::FILE* file = std::fopen("/proc/self/stat", "r");
              char* line = static_cast<char*>(std::malloc(1));
              size_t size = 1;
              if (getline(&line, &size, file) > 0) std::free(line);
              std::fclose(file);
            }"""
        self.compile("beside/libplugin.so", source, "-shared", "-fPIC", "-O1", "-fno-builtin")
        self.compile("beside/liblinked.so", source, "-shared", "-fPIC", "-O1", "-fno-builtin", "-Wl,--no-as-needed",
                     "-x", "none", settings.library)
        # The program's RUNPATH finds the library: dlopen searches by its caller.
        program = self.compile("opener", """#include <dlfcn.h>
            #include <cstdio>
            #include <cstdlib>
            #include <cstring>
            int main(int, char** words) {
              const int flags = std::strcmp(words[2], "deep") == 0 ? RTLD_NOW | RTLD_DEEPBIND : RTLD_NOW;
              void* plugin = dlopen(words[1], flags);
              if (plugin == nullptr) return std::puts(dlerror()), 9;
              const char* what = words[3];
              void* function = dlsym(plugin, what);
              if (std::strcmp(what, "give") == 0) std::free(reinterpret_cast<void* (*)()>(function)());
              else if (std::strcmp(what, "take") == 0) reinterpret_cast<void (*)(void*)>(function)(std::malloc(100));
              else reinterpret_cast<void (*)()>(function)();
              return 0; }""", "-O1", "-fno-builtin", "-Wl,-rpath," + self.path("beside"))
        for what in ("own", "give", "take", "copy", "read_line"):
            for how in ("plain", "deep"):
                result = tarn("run", "--", program, "libplugin.so", how, what)
                self.assertEqual((result.returncode, result.stderr), (0, ""), f"{how} {what}")
            kept = tarn("run", "--", program, "libplugin.so", "deep", what,
                        variables={"TARN_DEEP_BINDING": "on"})
            self.assertEqual(kept.returncode == 0, what == "own", f"{what}: {kept.stderr}")
            tarn("run", "--", program, "liblinked.so", "deep", what, code=0)
