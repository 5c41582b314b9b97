# SPDX-License-Identifier: MIT
"""End-to-end: tarn run --black-box: what is told of processes that are killed, crash or give up."""
import fcntl
import glob
import os
import random
import re
import shutil
import signal
import struct
import time

from boxed import INCLUDE, MIB, PROGRAM, BlackBoxBase, bytes_in
from containers_test import Group
from harness import FIRST, ZOMBIES, settings

# Memory that has names, and free blocks among live ones.
NAMED = """
    #include <csignal>
    #include <cstdlib>
    #include <cstring>
    #include <unistd.h>
    #include <vector>
    #include <tarn/buffer_pool.hpp>
    #include <tarn/pool.hpp>
    #include <tarn/scope.hpp>
    struct order { char data[112]; };
    int main(int count, char**) {
      if (count > 1) {
        usleep(500000);
        for (int i = 0; i < 300000; ++i) tarn::pool_of<order>().create();
        usleep(2500000);
        raise(SIGKILL);
      }
      std::vector<order*> orders;
      for (int i = 0; i < 100000; ++i) orders.push_back(tarn::pool_of<order>().create());
      tarn::buffer_pool io({.name = "io"});
      tarn::buffer buffer = io.get(16 << 20);
      std::memset(buffer.span().data(), 1, 16 << 20);
      tarn::scope session("session", {.limit = 64 << 20});
      {
        auto in = session.enter();
        for (int i = 0; i < 3000; ++i) std::memset(std::malloc(8000), 1, 8000);
      }
      std::vector<void*> blocks(300000);
      for (void*& each : blocks) std::memset(each = std::malloc(64), 1, 64);
      for (int i = 0; i < 300000; ++i) if (i % 50 != 0) std::free(blocks[i]);
      usleep(2500000);
      raise(SIGKILL);
    }"""


class black_box(BlackBoxBase):
    def test_however_it_ends(self):
        for how, status, said in (("kill", -signal.SIGKILL, "killed by signal 9"), ("abort", -signal.SIGABRT, "killed by signal 6"),
                                  ("crash", -signal.SIGSEGV, "killed by signal 11"), ("misuse", -signal.SIGABRT, "killed by signal 6"),
                                  ("_exit", 3, "it ended with status 3"), ("fails", 4, "it ended with status 4"),
                                  ("threads", -signal.SIGKILL, "killed by signal 9")):
            with self.subTest(how):
                before = self.left(".prof")
                result = self.run_boxed(self.program, how, "40")
                self.assertEqual(result.returncode, status, result.stderr)
                self.assertIn(said, result.stderr)
                self.assertIn("keep_session", result.stderr)
                profile, = set(self.left(".prof")) - set(before)
                self.assertIn(f"tarn report {profile}", result.stderr)
                self.assert_kept(profile, 40)
                self.assertEqual(self.left(".box"), [])

    def test_messages_that_nobody_reads(self):
        for full in (False, True):
            with self.subTest(full=full):
                before = self.left(".prof")
                said = self.unread_pipe(full)
                script = f"exec 2> {self.path('shell')}; {self.program} crash 10; sleep 1; echo still here; exit 7"
                for number, words, status in ((2, ("sh", "-c", script), 7), (3, (self.program, "crash", "10"), -signal.SIGSEGV),
                                              (3, ("true",), 0)):
                    begin = time.monotonic()
                    watch = self.launch(settings.tarn, "run", "--black-box", self.boxes, "--", *words, stdout=-1, stderr=said)
                    self.assertEqual((watch.communicate(timeout=20)[0], watch.returncode), ("still here\n" if status == 7 else "", status))
                    self.assertLess(time.monotonic() - begin, 10)
                    self.assertEqual((len(self.left(".prof")) - len(before), self.left(".box")), (number, []))

    def test_signals_are_passed_on_while_nobody_reads_messages(self):
        watch = self.launch(settings.tarn, "run", "--black-box", self.boxes, "--", "sh", "-c", f"exec 2> {self.path('shell')}; {self.program} crash 10; echo crashed; exec sleep 60",
                            stdout=-1, stderr=self.unread_pipe(full=True))
        watch.stdout.readline()
        time.sleep(0.5)
        watch.terminate()
        self.assertEqual(watch.wait(20), -signal.SIGTERM)

    def test_what_is_old_is_told_once_although_nobody_reads_it(self):
        self.execute(self.program, "kill", "20", variables={"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": self.boxes})
        for _ in range(2):
            result = self.run_boxed("echo", "it starts", stdout=-1, stderr=self.unread_pipe(full=False), capture_output=False)
            self.assertEqual((result.returncode, result.stdout, len(self.left(".prof")), self.left(".box")), (0, "it starts\n", 1, []))

    def test_nothing_is_said_of_a_program_that_ends_well(self):
        for how in ("ends", "_exit0", "quick", "raw", "sandbox"):
            result = self.run_boxed(self.program, how, "10")
            self.assertEqual((result.returncode, result.stderr, os.listdir(self.boxes)), (0, "", []))

    def test_no_part_exceeds_the_whole(self):
        said = self.run_boxed(self.program, "kill", "2").stderr
        shares = [float(share) for share in re.findall(r" <?([\d.]+) % ", said)]
        self.assertTrue(shares, said)
        live = re.search(r"([\d.]+) % +live blocks", said)
        for share, place in re.findall(r"<([\d.]+) %    (.*)", said):
            self.assertLessEqual(float(share), float(live.group(1)) + 1, place)

    def test_a_large_block_is_certain_beside_small_ones(self):
        program = self.compile("sizes", "#include <csignal>\n#include <cstdlib>\n#include <cstring>\n#include <unistd.h>\n"
                               "void* all[40001];\n"
                               "__attribute__((noinline)) void keep_table() { all[0] = malloc(200 << 20); memset(all[0], 1, 200 << 20); asm volatile(\"\"); }\n"
                               "__attribute__((noinline)) void keep_rows() { for (int i = 1; i <= 40000; ++i) all[i] = malloc(1000), memset(all[i], 1, 1000); asm volatile(\"\"); }\n"
                               "int main() { keep_table(); keep_rows(); usleep(1200000); kill(getpid(), SIGKILL); }\n",
                               "-O1", "-g", "-fno-builtin")
        said = self.run_boxed(program, variables={"TARN_PROFILE": "64K"}).stderr
        self.assertRegex(said, r"\n +(19[89]|20[0-2])(\.\d+)?( ± [\d.]+)? MiB +[\d.]+ % +keep_table", said)
        shown = self.execute(settings.tarn, "show", "-m", "live_bytes", self.left(".prof")[0], code=0).stdout
        self.assertRegex(shown, r" 200( ± \d(\.\d+)?)? MiB +\S* *keep_table", shown)
        self.assertRegex(shown, r" [345]\d ± \d+ MiB .*keep_rows", shown)

    def test_memory_that_is_not_touched_is_not_blamed(self):
        program = self.compile("reserved", "#include <csignal>\n#include <cstdlib>\n#include <cstring>\n#include <unistd.h>\n"
                               "void* ring;\n"
                               "void* all[8001];\n"
                               "__attribute__((noinline)) void reserve_ring() { ring = malloc(1ul << 30); asm volatile(\"\"); }\n"
                               "__attribute__((noinline)) void leak(int i) { all[i] = malloc(4000); memset(all[i], 1, 4000); asm volatile(\"\"); }\n"
                               "int main() { reserve_ring(); for (int i = 1; i <= 8000; ++i) { leak(i); if (i % 100 == 0) usleep(40000); }\n"
                               "  kill(getpid(), SIGKILL); }\n",
                               "-O1", "-g", "-fno-builtin")
        said = self.run_boxed(program, variables={"TARN_PROFILE": "64K"}).stderr
        self.assertNotIn("to hold less in reserve_ring", said)
        self.assertRegex(said, r"not in the sum: (1(\.0\d)? GiB|[19][,0-9]+ MiB) of the live blocks, never touched", said)
        self.assertRegex(said, r"\+\d+ ± \d+ MiB +leak", said)
        self.assertIn("which of the live blocks were touched, a black box does not know", said)

    def test_churn_does_not_hide_what_lives(self):
        # So many samples come of the buffers that the followed ones stand for more than all that is kept.
        program = self.compile("churn", "#include <csignal>\n#include <cstdlib>\n#include <cstring>\n#include <time.h>\n#include <unistd.h>\n"
                               "void* volatile kept[200001];\n"
                               "int main() { int n = 0; const time_t end = time(nullptr) + 3; for (long i = 0; time(nullptr) < end; ++i) {\n"
                               "    void* volatile buffer = malloc(256 << 10); free(buffer);\n"
                               "    if (i % 100 == 0 && n < 200000) { kept[n] = malloc(512); memset(kept[n++], 1, 512); } }\n"
                               "  kill(getpid(), SIGKILL); }\n", "-O1", "-g", "-fno-builtin")
        said = self.run_boxed(program).stderr
        self.assertIn("live blocks", said)
        self.assertNotIn("were free, but kept by malloc", said)

    def test_a_box_is_compared_with_a_recording(self):
        self.run_boxed(self.program, "kill", "2")
        recording = os.path.join(self.boxes, "other.prof")
        self.execute(settings.tarn, "profile", "-o", recording, "--", self.program, "_exit0", "2", code=0)
        compared = self.execute(settings.tarn, "diff", self.left(".prof")[0], recording, code=0)
        self.assertIn("a black box counts the bytes that malloc gave", compared.stderr)
        self.assertNotIn("a black box counts", self.execute(settings.tarn, "diff", recording, recording, code=0).stderr)

    def test_a_box_that_is_removed(self):
        for what in ("box", "folder"):
            watch = self.launch(settings.tarn, "run", "--black-box", self.boxes, "--", self.program, "crash", "60", "30000", stderr=-1)
            while not self.left(".box"):
                time.sleep(0.01)
            time.sleep(0.6)
            shutil.rmtree(self.boxes) if what == "folder" else os.unlink(self.left(".box")[0])
            os.makedirs(self.boxes, exist_ok=True)
            _, said = watch.communicate(timeout=60)
            self.assertRegex(said, r"^tarn: keep, process \d+: killed by signal 11 .*; its box is gone: .* was removed while it ran\n$")

    def test_a_box_with_many_modules(self):
        self.execute(self.program, "kill", "20", variables={"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": self.boxes})
        path, = self.left(".box")
        with open(path, "rb") as file:
            whole = file.read()
        # Before the box's own records, which thus keep their places.
        at = -(-struct.unpack_from("<I", whole, 8)[0] // 16) * 16
        records = b"".join(struct.pack("<IIQ QQQQII32s", 2, 96, 0, at << 12, (at + 1) << 12, 0, 0, 0, 0, b"") + bytes(8) for at in range(60000))
        with open(path, "wb") as file:
            file.write((whole[:at] + records + whole[at:])[:len(whole)])
        begin = time.monotonic()
        said = self.run_boxed("true").stderr
        self.assertIn("nobody saw how", said)
        self.assertLess(time.monotonic() - begin, 5)

    def test_figures_that_cannot_be(self):
        self.execute(self.program, "kill", "20", "100000", variables={"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": self.boxes})
        path, = self.left(".box")
        with open(path, "rb") as file:
            whole = file.read()
        at = whole.index(b"# TYPE tarn_class")
        for text in (b"tarn_x_total 5\ntarn_x{a=\"a\"} 3\n", b"tarn_pool_bytes 5\ntarn_pool_bytes{a=\"a\"} 3\n", b"tarn_pool_live_bytes{a=\"",
                     b"tarn_pool_live_bytes{a=\"a\"} " + b"9" * 38 + b"\n", b"\0\0", b"tarn_in_use_bytes{a=\"\"} 1\n"):
            with open(path, "wb") as file:
                file.write(whole[:at] + text + whole[at + len(text):])
            os.rename(path, path.replace(str(int(os.path.basename(path).split("-")[0])), "999999"))
            path, = self.left(".box")
            said = self.run_boxed("true")
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertIn("keep_session", said.stderr)
            self.assertNotIn("TiB", said.stderr)
            self.assertEqual(self.left(".box"), [])

    def test_a_folder_full_of_profiles(self):
        for number in range(64):
            with open(os.path.join(self.boxes, f"{number}.prof"), "wb"):
                pass
        result = self.run_boxed("sh", "-c", f"{self.program} kill 10; {self.program} kill 10; true")
        self.assertEqual(result.stderr.count("64 profiles"), 1, result.stderr)
        self.assertIn("2 killed processes were not told of", result.stderr)
        self.assertEqual((len(self.left(".prof")), self.left(".box")), (64, []))
        service = self.launch(settings.tarn, "serve", "--listen", "127.0.0.1:0", "--black-box", self.boxes, stdout=-1, stderr=-1)
        service.stdout.readline()
        self.execute(self.program, "kill", "10", variables={"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": self.boxes})
        end = time.monotonic() + 30
        while self.left(".box"):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        service.terminate()
        self.assertIn("1 killed processes were not told of", service.communicate(timeout=60)[1])
        self.assertIn("killed by signal 9", self.run_boxed(self.program, "kill", "10").stderr)

    def test_a_profile_that_cannot_be_written(self):
        folder = os.path.join(self.boxes, "small")
        os.mkdir(folder)
        if self.execute("mount", "-t", "tmpfs", "-o", "size=2m", "none", folder).returncode != 0:
            self.skipTest("no right to mount")
        self.addCleanup(self.execute, "umount", folder)
        service = self.launch(settings.tarn, "serve", "--listen", "127.0.0.1:0", "--black-box", folder, stdout=-1, stderr=-1)
        service.stdout.readline()
        program = self.launch(self.program, "kill", "30", "40000", env={**self.environment(), "LD_PRELOAD": settings.library, "TARN_BLACK_BOX": folder})
        while not glob.glob(os.path.join(folder, "*.box")):
            time.sleep(0.01)
        time.sleep(0.7)
        with open(os.path.join(folder, "filler"), "wb", buffering=0) as file, self.assertRaises(OSError):
            while True:
                file.write(b"x" * 4096)
        program.wait()
        time.sleep(3)
        service.send_signal(signal.SIGTERM)
        _, told = service.communicate(timeout=60)
        # It is told once, however often the server looks.
        self.assertEqual(told.count("killed by signal 9"), 1, told)
        self.assertEqual(told.count("the box stays"), 1, told)
        self.assertEqual(len(glob.glob(os.path.join(folder, "*.box"))), 1)

    def test_one_watch_has_a_box(self):
        self.execute(self.program, "kill", "20", variables={"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": self.boxes})
        path, = self.left(".box")
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.assertEqual(self.run_boxed("true").stderr, "")
        # The watch that had it has been killed.
        self.assertIn("nobody saw how", self.run_boxed("true").stderr)

    def test_ended_as_asked(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            watch = self.launch(settings.tarn, "run", "--black-box", self.boxes, "--", self.program, "ends", "100000", "100", stderr=-1)
            while not self.left(".box"):
                time.sleep(0.01)
            time.sleep(0.2)
            os.kill(watch.pid, number)
            _, said = watch.communicate(timeout=60)
            self.assertEqual((watch.returncode, said, os.listdir(self.boxes)), (-number, "", []))

    def test_what_is_no_box_stays(self):
        os.mkfifo(os.path.join(self.boxes, "1-1.box"))
        os.mkdir(os.path.join(self.boxes, "2-2.box"))
        os.symlink("/etc/passwd", os.path.join(self.boxes, "3-3.box"))
        for name, text in (("4-4.box", b""), ("5-5.box", b"tarnbox1" + b"x" * 8000)):
            with open(os.path.join(self.boxes, name), "wb") as file:
                file.write(text)
        result = self.run_boxed(self.program, "ends", "3", timeout=30)
        self.assertEqual(result.returncode, 0)
        self.assertIn("another version", result.stderr)
        self.assertRegex(result.stderr, "4-4.box is no black box, .*: move it, or remove it")
        self.assertEqual(len(os.listdir(self.boxes)), 5)

    def test_helpers_are_not_reported(self):
        result = self.run_boxed("sh", "-c", f"{self.program} fails 10; (exit 3); exec {self.program} ends 10")
        self.assertEqual((result.returncode, result.stderr, os.listdir(self.boxes)), (0, "", []))

    def test_an_image_begins_anew(self):
        self.run_boxed("sh", "-c", f"exec {self.program} kill 40")
        profile, = self.left(".prof")
        self.assertTrue(os.path.basename(profile).startswith("keep-"))
        self.assert_kept(profile, 40)

    def test_growth_is_told(self):
        result = self.run_boxed(self.program, "kill", "60", "60000", variables={"TARN_PROFILE": "64K"})
        self.assertRegex(result.stderr, r"\+\d+ ± \d+ MiB +keep_session")

    def test_the_next_watch_takes_what_a_killed_one_has_left(self):
        watch = self.launch(settings.tarn, "run", "--black-box", self.boxes, "--", self.program, "kill", "30", "20000")
        while not self.left(".box"):
            time.sleep(0.01)
        watch.kill()
        watch.wait()
        box = self.left(".box")[0]
        while os.path.exists(f"/proc/{os.path.basename(box).split('-')[0]}"):
            time.sleep(0.01)
        self.assert_kept(box, 30)  # show reads it as it is
        result = self.run_boxed("true")
        self.assertEqual(result.returncode, 0)
        self.assertIn("it has ended, and nobody saw how", result.stderr)
        self.assertIn("what lived at the end", result.stderr)
        self.assertEqual(self.left(".box"), [])
        self.assert_kept(self.left(".prof")[0], 30)

    def test_what_no_sample_knows(self):
        # The engine knows how much lives; no sample, or one of them, says where.
        program = self.compile("still", "#include <csignal>\n#include <cstdlib>\n#include <cstring>\n#include <unistd.h>\n"
                               "int main() { for (int i = 0; i < 60 * 340; ++i) std::memset(std::malloc(3000), 1, 3000); usleep(2500000); raise(9); }",
                               "-O1", "-fno-builtin")
        said = self.run_boxed(program, variables={"TARN_PROFILE": "1G"}).stderr
        live = " ".join(re.search(r"(\S+)(?: ± \d+)? (\S+) +\d+ % +live blocks\n", said).groups())
        self.assertLess(abs(bytes_in(live) - 60 * 340 * 3072), 0.1 * 60 * 340 * 3072, said)
        self.assertRegex(said, r"([5-6]\d(\.\d+)?( ± \d+)? MiB +\d\d % +(\[live, but not sampled\]|main)|up to [67]\d MiB +<\d+ % +others \(1\)\n(.*\n)*.*more samples tell)")
        self.assertRegex(said, r"\n +(up to )?(\d(\.\d+| ± \d)? MiB|\d+ KiB) +\S+ % +kept by malloc")
        # Without these figures it is an estimate, with a margin.
        said = self.run_boxed(self.program, "kill", "60", "20000", variables={"TARN_BACKGROUND": "off"}).stderr
        self.assertRegex(said, r" ± .* +live blocks\n")

    def test_what_is_not_mallocs(self):
        program = self.compile("waits", """
            #include <csignal>
            #include <cstdlib>
            #include <sys/mman.h>
            #include <thread>
            #include <unistd.h>
            char table[5 << 20];
            void* volatile kept;
            void touch(volatile char* at, std::size_t bytes) { for (std::size_t i = 0; i < bytes; i += 1024) at[i] = 1; }
            int main() {
              for (int i = 0; i < 20; ++i)
                std::thread([i] { char own[500000]; touch(own, sizeof own); volatile char spins = i == 7; while (spins) {} pause(); }).detach();
              touch(table, sizeof table);
              kept = std::calloc(300, 1 << 20);  // which is not written
              touch(static_cast<char*>(mmap(nullptr, 30 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)), 30 << 20);
              sleep(1);
              raise(9);
            }""", "-O1", "-pthread")
        said = self.run_boxed(program).stderr
        for kind, mib in (("stacks of threads", 20 * 500000 / (1 << 20)), ("static data that was written to", 5),
                          (r"+\d+ %  mapped by the program itself", 30)):
            told = bytes_in(re.search(r"(\S+ \S+) " + kind, said).group(1)) / (1 << 20)
            self.assertLess(abs(told - mib), 0.7, (kind, said))
        self.assertRegex(said, "not in the sum: (300|299)(\\.[0-9]+)? MiB of the live blocks, never touched")
        self.assertRegex(said, "the largest part, (30|29)(\\.[0-9]+)? MiB, was no block of malloc's, but mapped by the program itself")

    def test_what_came_after_the_last_look(self):
        program = self.compile("late", """
            #include <csignal>
            #include <cstdlib>
            #include <cstring>
            #include <sys/mman.h>
            #include <unistd.h>
            void* volatile kept;
            int main() {
              std::memset(kept = std::malloc(2 << 20), 1, 2 << 20);
              usleep(300000);
              std::memset(mmap(nullptr, 90 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0), 1, 1);
              raise(9);
            }""", "-O1")
        for _ in range(20):  # until no look comes after the end of the growth
            said = self.run_boxed(program).stderr
            self.assertRegex(said, r"its resident memory reached at least 9\d")
            if "nothing is known" in said:
                break
        # A look may come amid the growth: what it saw and what came after are the whole.
        seen = re.search(r"what was resident at [^,]*, ([\d.]+) MiB", said)
        later = re.search(r"what is not malloc's was read \S+ \S+ before; at its peak since then there was ([\d.]+) MiB more, of which nothing is known", said)
        self.assertTrue(seen and later, said)
        self.assertTrue(90 <= float(seen.group(1)) + float(later.group(1)) < 100, said)

    def test_a_childs_peak_is_not_its_parents(self):
        program = self.compile("parent", """
            #include <csignal>
            #include <cstdlib>
            #include <cstring>
            #include <sys/wait.h>
            #include <unistd.h>
            void* volatile kept;
            void hold(std::size_t bytes) { std::memset(kept = std::malloc(bytes), 1, bytes); }
            int main() {
              hold(20 << 20);
              if (fork() == 0) { hold(90 << 20); _exit(0); }
              wait(nullptr);
              usleep(800000);
              raise(9);
            }""", "-O1", "-fno-builtin")
        said = self.run_boxed(program).stderr
        self.assertRegex(said, r"its resident memory reached at least 2\d(\.\d+)? MiB\n")
        self.assertRegex(said, r"what was resident at \S+ \S+ 2\d(\.\d+)? MiB")
        self.assertNotIn("nothing is known", said)

    def test_before_the_first_sample(self):
        said = self.run_boxed(self.program, "crash", "0", variables={"TARN_PROFILE": "1G"}, before=()).stderr
        self.assertIn("killed by signal 11", said)
        self.assertNotIn("mapped by the program itself", said)
        self.assertNotRegex(said, r"by place:\n(?! +\S+ \S+ +\d)")

    def test_memory_that_has_a_name(self):
        folder = os.path.dirname(settings.library)
        program = self.compile("named", NAMED, "-std=c++20", "-O1", "-fno-builtin", "-I", INCLUDE, "-L", folder, "-ltarn",
                               f"-Wl,-rpath,{folder}")
        said = self.run_boxed(program).stderr
        for bytes_told, what in ((11.4 * MIB, "typed pool order: 100k objects live"), (16 * MIB, "buffer pool io: 16 MiB in use, 0 B idle"),
                                 (23.9 * MIB, "scope session: 1 open, with a budget of 64 MiB")):
            # With its guard pages, where the kernel has no others (before Linux 6.13), it has a little more.
            line = next(each for each in said.replace("16.0 MiB in use", "16 MiB in use").splitlines() if each.endswith(what))
            self.assertLess(abs(bytes_in(line.strip()) - bytes_told), 0.15 * bytes_told, said)
        free = re.search(r"free in malloc, .*: (\S+ \S+) beside live blocks .* in blocks: (\S+ \S+) of 64 bytes", said.replace("\n", " "))
        self.assertGreater(bytes_in(free.group(1)), 15 * MIB)
        self.assertGreater(bytes_in(free.group(2)), 15 * MIB)
        self.assertRegex(said, r"1[0-9.]+ MiB +\d+ % +typed pool order")
        # Pools alone: no sample of malloc tells how much memory it has.
        said = self.run_boxed(program, "pools").stderr
        self.assertRegex(said, r"[34]\d(\.\d+)? MiB +[789]\d % +typed pool order")
        # No thread writes these figures then.
        said = self.run_boxed(program, variables={"TARN_BACKGROUND": "off"}).stderr
        self.assertIn("killed by signal 9", said)
        self.assertNotIn("typed pool", said)

    def test_a_box_has_no_costs(self):
        self.run_boxed(self.program, "kill", "20", "20000")
        profile, = self.left(".prof")
        self.assertNotIn("cost", self.execute(settings.tarn, "show", profile, code=0).stdout)
        self.assert_refused(self.execute(settings.tarn, "show", "-m", "cost", profile), 125, "black box", "cost")
        self.assert_refused(self.execute(settings.tarn, "advise", profile), 125, "no costs")
        self.assertIn("keep_session", self.execute(settings.tarn, "show", "--by", "tree", profile, code=0).stdout)
        self.assertIn("keep_session", self.execute(settings.tarn, "show", "--by", "rss", profile, code=0).stdout)
        self.execute(settings.tarn, "report", profile, "-o", self.path("x.html"), code=0)

    def test_another_malloc(self):
        others = glob.glob("/usr/lib/*/libjemalloc.so.2") + glob.glob("/usr/lib/*/libmimalloc.so.*")
        if not others:
            self.skipTest("no other malloc is installed")
        # Its place is taken, and it is said what keeps it.
        said = self.run_boxed(self.program, "kill", "20", variables={"LD_PRELOAD": others[0]}).stderr
        self.assertIn(f"{others[0]}, gives way to tarn's; to keep it: tarn profile --checkpoint 1 -- PROGRAM", said)
        self.assertNotIn("gives way", self.run_boxed(self.program, "kill", "20", variables={"LD_PRELOAD": settings.library}).stderr)
        # That command says the same of a kill.
        group = Group(self, 200, "other")
        for words, how in (((), "killed by signal 9"), (group.words, "killed by the kernel, as memory had run out (OOM killer)")):
            said = self.execute(*words, settings.tarn, "profile", "--checkpoint", "1", "-o", self.path(f"{len(words)}.prof"), "--", self.program,
                                "kill", "100000" if words else "40", "2000", variables={"LD_PRELOAD": others[0]}).stderr
            self.assertIn(how, said)
            self.assertRegex(said, r"% +keep_session")
            self.assertRegex(said, r"what was resident at .*\n +\S+ ± .* live blocks")

    def test_where_there_can_be_none(self):
        self.assert_refused(self.execute(settings.tarn, "run", "--black-box", "/proc/1", "--", "true"), 125, "/proc/1")
        for what, words in (("ulimit -f", ["sh", "-c", 'ulimit -f 1000; exec "$@"', "sh"]),):
            with self.subTest(what):
                result = self.run_boxed(self.program, "kill", "1", before=words)
                self.assertEqual(result.returncode, -signal.SIGKILL)
                self.assertIn("no black box", result.stderr)
                self.assertIn(what, result.stderr)
        self.assert_refused(self.execute(settings.tarn, "run", "--black-box", self.boxes + "/x" * 130, "--", "true"), 125, "255 characters")
        result = self.execute(self.program, "ends", "1", code=0,
                              variables={"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": "nowhere"})
        self.assertIn("a folder's absolute path", result.stderr)
        result = self.execute(self.program, "ends", "1", code=0,
                              variables={"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": "/nowhere"})
        self.assertIn("the folder must exist", result.stderr)

    def test_a_full_file_system(self):
        small = self.path("small")
        os.mkdir(small)
        if self.execute("mount", "-t", "tmpfs", "-o", "size=128k", "none", small).returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(self.execute, "umount", small)
        result = self.execute(self.program, "kill", "40", variables={"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": small})
        self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
        box, = glob.glob(small + "/*.box")
        # A second process finds no room, and runs on.
        result = self.execute(self.program, "_exit", "40", variables={"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": small})
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assert_kept(box, 40)

    def test_damaged_boxes(self):
        self.execute(self.program, "kill", "20", variables={"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": self.boxes})
        path, = self.left(".box")
        with open(path, "rb") as file:
            whole = file.read(1 << 16)
        chance = random.Random(1)
        for _ in range(60):
            damaged = bytearray(whole[:chance.randrange(len(whole))])
            for _ in range(chance.randrange(20)):
                if damaged:
                    damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            with open(path, "wb") as file:
                file.write(damaged)
            result = self.execute(settings.tarn, "show", path)
            self.assertIn(result.returncode, (0, 3, 125), result.stderr)
            self.run_boxed("true", timeout=60)
            for each in os.listdir(self.boxes):
                os.unlink(os.path.join(self.boxes, each))
