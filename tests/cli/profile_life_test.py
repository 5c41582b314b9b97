# SPDX-License-Identifier: MIT
"""End-to-end: `tarn profile` on programs that crash, fork, exec, go on in the background or are killed."""
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
from harness import settings
from profile_test import END, MIB, PAGE, ProfileBase, sees_faults, small_pages


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
        """Processor time of a program that is not recorded, of three runs, in ns."""
        used = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.execute(*words, code=0)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used.append(1e9 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime))
        return used

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
            # Before and after: on a virtual machine the price of fresh pages changes tenfold within seconds.
            used += self.used_by(program)
            whole = known["user_ns"] + known["system_ns"]
            self.assertGreater(whole, 0.7 * min(used), words)
            self.assertLess(whole, 3 * max(used) + 10e6, words)
            self.assertGreater(known["meta"]["duration_ns"], 0.5 * min(used))
            self.assertGreater(known["other_faults"] + known["unseen_faults"], 1900)
            self.assertLessEqual(known["fault_ns"] + known["unmap_ns"], known["processor_ns"])

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

    def test_a_collector_that_was_stopped_takes_up_the_recording(self):
        program = self.compile("goes_on", """
            #include <stdlib.h>
            #include <stdio.h>
            #include <unistd.h>
            static void* volatile keep;
            __attribute__((noinline)) static void block() { keep = malloc(64); free(keep); }
            __attribute__((noinline)) static void late_block() { keep = malloc(64); free(keep); }
            int main() {
              int count = 0;
              for (; access("go", F_OK) != 0; ++count) { block(); if (count == 1000) fclose(fopen("began", "w")); }
              sleep(1);
              for (int i = 0; i < 1000; ++i) late_block();
              printf("%d\\n", count);
            }""", "-g", "-O1")
        tarn = self.launch(settings.tarn, "profile", "--mode", "full", "--no-events", "-o", "x.prof", "--", program,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not os.path.exists(self.path("began")):
            time.sleep(0.05)
        tarn.send_signal(signal.SIGSTOP)
        time.sleep(3)
        tarn.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        self.write("go", "")
        made, said = tarn.communicate(timeout=60)
        self.assertEqual(tarn.returncode, 0, said)
        known = self.dump(self.path("x.prof"))
        site = self.figures(known, "block")
        late = self.figures(known, "late_block")
        self.assertEqual((late["allocations"], late["frees"]), (1000, 1000))
        self.assertGreater(known["lost_events"], 0)
        # Each event was either recorded or counted as lost.
        told = site["allocations"] - late["allocations"] + site["frees"] - late["frees"]
        self.assert_near(told + known["lost_events"], 2 * int(made), 1e-5)
        self.assertRegex(said, r"events were lost while tarn stood still.*lower\s+bounds")
        self.assertEqual(json.loads(self.execute(settings.tarn, "export", "--json", "x.prof", code=0).stdout)["meta"]
                         ["leaks"]["known"], False)

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
