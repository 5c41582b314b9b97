# SPDX-License-Identifier: MIT
"""End-to-end: tarn run --black-box: what is told of processes that are killed, crash or give up."""
import fcntl
import glob
import json
import os
import random
import re
import shutil
import signal
import tempfile
import time

from containers_test import Group
from harness import Base, settings

MIB = 1 << 20
INCLUDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../include")

# keep HOW MIB [PAUSE]: keeps blocks of 3,000 bytes, 1 MiB after the other, beside others that it frees, and ends as it is told.
PROGRAM = """
    #include <cstddef>
    #include <cstdlib>
    #include <cstring>
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    #include <sched.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    #include <string>
    #include <vector>
    #include <sys/wait.h>
    #include <thread>
    #include <unistd.h>
    static std::vector<char*> kept;
    [[gnu::noinline]] void keep_session() {
      kept.push_back(static_cast<char*>(std::malloc(3000)));
      std::memset(kept.back(), 1, 3000);
    }
    [[gnu::noinline]] void use_for_a_moment() {
      void* volatile block = std::malloc(5000);
      std::free(block);
    }
    static void keep(int mib, int pause) {
      for (int i = 0; i < mib * 340; ++i) {
        keep_session();
        use_for_a_moment();
        if (i % 340 == 339 && pause > 0) usleep(pause);
      }
    }
    int main(int count, char** words) {
      const std::string how = words[1];
      const int mib = std::atoi(words[2]);
      const int pause = count > 3 ? std::atoi(words[3]) : 0;
      if (how == "fork") {
        keep(10, 0);
        if (fork() == 0) {
          keep(mib, 0);
          kill(getpid(), SIGKILL);
        }
        wait(nullptr);
        return 0;
      }
      if (how == "threads") {
        std::vector<std::thread> all;
        for (int t = 0; t < 4; ++t) all.emplace_back([&] { for (int i = 0; i < mib * 100; ++i) use_for_a_moment(); });
        for (std::thread& each : all) each.join();
      }
      keep(mib, pause);
      if (how == "fork_free") {
        // The parent frees all that the child has inherited, before the child frees half of it.
        int gate[2];
        if (pipe(gate) != 0) return 1;
        if (fork() == 0) {
          char word;
          if (read(gate[0], &word, 1) != 1) return 1;
          for (std::size_t i = 0; i < kept.size() / 2; ++i) std::free(kept[i]);
          kill(getpid(), SIGKILL);
        }
        for (char* each : kept) std::free(each);
        if (write(gate[1], "x", 1) != 1) return 1;
        wait(nullptr);
        _exit(0);
      }
      if (how == "unreaped") {
        // Nobody waits for the child while it is told.
        if (fork() == 0) {
          keep(mib, 0);
          usleep(300000);
          kill(getpid(), pause == 1 ? SIGTERM : SIGKILL);
        }
        sleep(2);
        return 0;
      }
      if (how == "again" && mib > 0) {
        char* const words_again[] = {words[0], words[1], const_cast<char*>("0"), nullptr};
        char* const nothing[] = {nullptr};
        execve("/proc/self/exe", words_again, nothing);
      }
      if (how == "again") {
        usleep(1500000);
        kill(getpid(), SIGKILL);
      }
      if (how == "raw_fork") {
        const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        for (int i = 0; i < 100; ++i) keep(1, 0);
        if (child == 0) syscall(SYS_exit_group, 0);
        wait(nullptr);
        kill(getpid(), SIGKILL);
      }
      if (how == "sandbox") {
        // Kills at all calls but those that a process needs to end.
        sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        const sock_fprog program = {sizeof filter / sizeof *filter, filter};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
        _exit(0);
      }
      if (how == "quick") std::quick_exit(0);
      if (how == "raw") syscall(SYS_exit_group, 0);
      if (how == "kill" || how == "threads") kill(getpid(), SIGKILL);
      if (how == "abort") std::abort();
      if (how == "crash") *reinterpret_cast<volatile int*>(16) = 1;
      if (how == "misuse") { std::free(kept[0]); std::free(kept[0]); }
      if (how == "_exit") _exit(3);
      if (how == "_exit0") _exit(0);
      return how == "fails" ? 4 : 0;
    }"""


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


def bytes_in(text):
    """Of "12.5 MiB"."""
    number, unit = re.match(r"([\d.,]+) ([KMG]?i?B)", text).groups()
    return float(number.replace(",", "")) * {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}[unit]


class BlackBoxBase(Base):
    def setUp(self):
        super().setUp()
        self.boxes = tempfile.mkdtemp(prefix="tarn-box-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(shutil.rmtree, self.boxes)
        self.program = self.compile("keep", PROGRAM, "-g", "-O1", "-fno-builtin", "-pthread")

    def run_boxed(self, *words, before=(), **more):
        return self.execute(*before, settings.tarn, "run", "--black-box", self.boxes, "--", *words, **more)

    def left(self, ending):
        return sorted(glob.glob(os.path.join(self.boxes, "*" + ending)))

    def live_at(self, path, function):
        """Live bytes of a place of a profile or a box, and the margin."""
        shown = json.loads(self.execute(settings.tarn, "show", "--json", path, code=0).stdout)
        for row in shown["sites"]:
            if row["function"].startswith(function):
                return row["live_bytes"], row["margins"].get("live_bytes", 0)
        raise AssertionError(f"{function} is not in {path}: {shown}")

    def assert_kept(self, path, mib):
        live, margin = self.live_at(path, "keep_session")
        # Blocks of 3,000 bytes take 3,072. Five standard deviations; a margin is two.
        self.assertLess(abs(live - mib * 340 * 3072), 2.5 * margin, path)
        self.assertLess(margin, 0.8 * live)


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

    def test_nothing_is_said_of_a_program_that_ends_well(self):
        for how in ("ends", "_exit0", "quick", "raw", "sandbox"):
            result = self.run_boxed(self.program, how, "10")
            self.assertEqual((result.returncode, result.stderr, os.listdir(self.boxes)), (0, "", []))

    def test_a_child_has_a_box_of_its_own(self):
        result = self.run_boxed(self.program, "fork", "40")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, "keep, process .*: (killed by signal 9|it has ended, and nobody saw how)")
        profile, = self.left(".prof")
        self.assert_kept(profile, 50)

    def test_a_child_has_the_figures_of_the_fork(self):
        result = self.run_boxed(self.program, "fork_free", "80")
        self.assertEqual(result.returncode, 0)
        profile, = self.left(".prof")
        self.assert_kept(profile, 40)

    def test_a_child_past_libc_changes_nothing(self):
        result = self.run_boxed(self.program, "raw_fork", "40")
        self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
        # Of the child, which ends past libc, too, nobody may have seen how.
        parent = re.search(r"process (\d+): killed by signal 9", result.stderr).group(1)
        self.assert_kept(os.path.join(self.boxes, f"keep-{parent}.prof"), 140)

    def test_an_image_without_a_box_ends_well(self):
        result = self.run_boxed("sh", "-c", f"{self.program} ends 3; exec env -i true")
        self.assertEqual((result.returncode, result.stderr, os.listdir(self.boxes)), (0, "", []))

    def test_a_program_whose_file_is_replaced(self):
        program = shutil.copy(self.program, self.path("replaced"))
        watch = self.launch(settings.tarn, "run", "--black-box", self.boxes, "--", program, "kill", "60", "30000", stderr=-1)
        while not self.left(".box"):
            time.sleep(0.01)
        time.sleep(0.5)
        os.replace(shutil.copy(self.program, self.path("new")), program)
        _, said = watch.communicate(timeout=60)
        self.assertIn("killed by signal 9", said)
        self.assert_kept(self.left(".prof")[0], 60)

    def test_a_child_that_nobody_waits_for(self):
        self.assertRegex(self.run_boxed(self.program, "unreaped", "20").stderr, "keep, process .*: killed by signal 9")
        self.assert_kept(self.left(".prof")[0], 40)
        self.assertEqual(self.run_boxed(self.program, "unreaped", "20", "1").stderr, "")

    def test_another_namespace_of_processes(self):
        result = self.run_boxed("unshare", "--pid", "--fork", "--mount-proc", self.program, "crash", "30", "20000")
        if "unshare failed" in result.stderr:
            self.skipTest(result.stderr)
        self.assertRegex(result.stderr, "keep, process 1: killed by signal 11")
        self.assert_kept(os.path.join(self.boxes, "keep-1.prof"), 30)

    def test_an_image_without_the_library(self):
        result = self.run_boxed(self.program, "again", "30", "100000")
        self.assertEqual((result.returncode, result.stderr, os.listdir(self.boxes)), (-signal.SIGKILL, "", []))

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

    def test_the_group_is_full(self):
        group = Group(self, 200, "box")
        result = self.run_boxed(self.program, "kill", "100000", before=group.words)
        self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
        self.assertIn("killed by the kernel, as memory had run out (OOM killer)", result.stderr)
        self.assertIn("the limit of its control group is 200 MiB", result.stderr)
        # What was resident: all of the group but what tarn itself and the kernel have.
        told = bytes_in(re.search(r"what was resident at \S+ \S+ ([^(]+) \(in full", result.stderr).group(1))
        self.assertLess(abs(told - 200 * MIB), 0.1 * 200 * MIB, result.stderr)

    def test_a_server_holds_boxes(self):
        service = self.launch(settings.tarn, "serve", "--listen", "127.0.0.1:0", "--black-box", self.boxes, stdout=-1, stderr=-1)
        service.stdout.readline()
        variables = {"LD_PRELOAD": settings.library, "TARN_BLACK_BOX": self.boxes}
        group = Group(self, 200, "served")
        for how, said in (("kill 30 5000", "killed by signal 9"), ("fails 30", ""), ("kill 100000 1000", "the limit of its control group is 200 MiB")):
            before = len(self.left(".prof"))
            ended = self.execute(*(group.words if "100000" in how else ()), self.program, *how.split(), variables=variables)
            self.assertNotEqual(ended.returncode, 0)
            while self.left(".box"):
                time.sleep(0.05)
            self.assertEqual(len(self.left(".prof")) - before, 1 if said else 0, how)
        service.send_signal(signal.SIGTERM)
        _, told = service.communicate(timeout=60)
        self.assertEqual(service.returncode, 0, told)
        self.assertIn("killed by the kernel, as memory had run out (OOM killer)", told)
        self.assertIn("the limit of its control group is 200 MiB", told)
        self.assertEqual(told.count("next: tarn report"), 2, told)

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

    def test_memory_that_has_a_name(self):
        folder = os.path.dirname(settings.library)
        program = self.compile("named", NAMED, "-std=c++20", "-O1", "-fno-builtin", "-I", INCLUDE, "-L", folder, "-ltarn",
                               f"-Wl,-rpath,{folder}")
        said = self.run_boxed(program).stderr
        for bytes_told, what in ((11.4 * MIB, "typed pool order: 100k objects live"), (16 * MIB, "buffer pool io: 16 MiB in use, 0 B idle"),
                                 (23.9 * MIB, "scope session: 1 open, with a budget of 64 MiB")):
            line = next(each for each in said.splitlines() if each.endswith(what))
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
        self.assert_refused(self.execute(settings.tarn, "show", "-m", "cost", profile), 125, "a black box")
        self.assert_refused(self.execute(settings.tarn, "advise", profile), 125, "a black box")
        self.assertIn("keep_session", self.execute(settings.tarn, "show", "--by", "tree", profile, code=0).stdout)
        self.assertIn("keep_session", self.execute(settings.tarn, "show", "--by", "rss", profile, code=0).stdout)
        self.execute(settings.tarn, "report", profile, "-o", self.path("x.html"), code=0)

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


class black_box_often(BlackBoxBase):
    def test_a_hundred_kills_at_any_moment(self):
        for number in range(100):
            for each in os.listdir(self.boxes):
                os.unlink(os.path.join(self.boxes, each))
            watch = self.launch(settings.tarn, "run", "--black-box", self.boxes, "--", self.program, "ends", "100000", "100",
                                stderr=-1)
            while not self.left(".box"):
                time.sleep(0.001)
            time.sleep(random.uniform(0.05, 0.6))
            process = int(os.path.basename(self.left(".box")[0]).split("-")[0])
            os.kill(process, random.choice((signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT)))
            _, said = watch.communicate(timeout=60)
            with self.subTest(number):
                self.assertIn("killed by signal", said)
                self.assertRegex(said, r"% +keep_session")
