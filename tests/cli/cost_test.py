# SPDX-License-Identifier: MIT
"""End-to-end: `tarn cost`, measuring and watching."""
import errno
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import unittest

from harness import Base, environment, refuse_call, settings, tarn

MIB = 1 << 20
# Maps 4 MiB, writes every page and unmaps them, as often as its argument says; -1: forever.
REFAULT = """
import mmap, sys, time
left = int(sys.argv[1])
while left:
    with mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for page in range(0, 4 << 20, 4096):
            memory[page] = 1
    left -= 1
    time.sleep(0.01)
"""
NOBODY = 65534


def quick(*words, **more):
    """`tarn cost` with few ways and two rounds."""
    return tarn("cost", "-r", "2", "--only", "system,mmap", *words, **more)


def forbid_perf_event_open(error):
    """Called in a child before exec (preexec_fn): perf_event_open fails with errno `error` from now on."""
    refuse_call({"x86_64": 298, "aarch64": 241}[platform.machine()], error)


class cost(Base):
    """Times, which are valid only while nothing else runs."""

    def test_figures(self):
        result = quick("--json", "16M", "--seed", "3", code=0)
        report = json.loads(result.stdout)
        self.assertEqual((report["rounds"], report["sizes"], report["seed"]), (2, [16 * MIB], 3))
        ways = {one["way"]: one for one in report["results"]}
        self.assertEqual(list(ways), ["recycled", "system", "mmap"])
        recycled, mapped = ways["recycled"]["metrics"], ways["mmap"]["metrics"]
        self.assertLess(recycled["faults"]["median"], 1)
        self.assertEqual(len(mapped["faults"]["runs"]), 2)
        small = open("/sys/kernel/mm/transparent_hugepage/enabled").read().find("[always]") < 0
        if small and os.sysconf("SC_PAGE_SIZE") == 4096:
            self.assertAlmostEqual(mapped["faults"]["median"], 4096, delta=40)
        self.assertGreater(mapped["first_write_seconds"]["median"], recycled["first_write_seconds"]["median"])
        whole = sum(mapped[key]["median"] for key in ("allocate_seconds", "first_write_seconds",
                                                       "second_write_seconds", "free_seconds"))
        self.assertGreater(ways["mmap"]["true_total_seconds"], ways["mmap"]["timer_seconds"])
        # The median of two rounds is their mean, so that medians add up.
        writes = sum(recycled[key]["median"] for key in ("first_write_seconds", "second_write_seconds"))
        self.assertAlmostEqual(ways["mmap"]["true_total_seconds"], whole - writes, delta=1e-8)
        self.assertGreaterEqual(recycled["kept_bytes"]["median"], 16 * MIB)
        self.assertLess(mapped["kept_bytes"]["median"], 8 * MIB)

    def test_true_total_is_the_wall_time_that_a_loop_loses(self):
        """cost_loop measures the same from outside, without timing single steps; both must agree."""
        ratios = []
        # Other load may disturb one or two attempts; the median of five to nine must agree within 10 %.
        while len(ratios) < 9:
            apart = [self.loop("mmap", 32 * MIB)]
            report = json.loads(tarn("cost", "-r", "5", "--only", "mmap", "--json", "32M").stdout)
            apart.append(self.loop("mmap", 32 * MIB))
            total = next(one["true_total_seconds"] for one in report["results"] if one["way"] == "mmap")
            ratios.append(total / statistics.mean(apart))
            if len(ratios) >= 5 and abs(statistics.median(ratios) - 1) < 0.1:
                return
        self.fail(f"true total divided by the loop's time, in nine attempts: {ratios}")

    def test_the_systems_malloc_is_measured_as_programs_have_it(self):
        """By default glibc keeps a freed buffer of 4 MiB. The malloc option of tarn's own process must not apply."""
        if "glibc" not in platform.libc_ver()[0]:
            self.skipTest("no glibc")
        report = json.loads(tarn("cost", "-r", "1", "--only", "system", "--json", "4M").stdout)
        system = next(one for one in report["results"] if one["way"] == "system")
        self.assertLess(system["metrics"]["faults"]["median"], 100, system)

    def loop(self, way, size):
        result = self.execute(settings.cost_loop, way, str(size), "6", "7", code=0)
        return float(result.stdout)


class cost_command(Base):
    """What is printed, written and refused; independent of the figures."""

    def test_table(self):
        result = quick("2M", "64K", code=0)
        for phrase in ("prices: ", "first touch ever: ", "2 MiB", "64 KiB", "1st write", "true", "medians of 2 rounds",
                       "a timer", "lowest to"):
            self.assertIn(phrase, result.stdout)
        for way in ("recycled", "system", "mmap"):
            self.assertEqual(len(re.findall(rf"(?m)^{way} +\d", result.stdout)), 2, result.stdout)
        self.assertNotIn("mmap-huge", result.stdout)

    def test_every_way(self):
        result = tarn("cost", "-r", "1", "--json", "2M", code=0)
        ways = [one["way"] for one in json.loads(result.stdout)["results"]]
        self.assertEqual(ways[:3], ["recycled", "system", "tarn"])
        self.assertEqual(ways[-3:], ["mmap", "mmap-huge", "mmap-populate"])

    def test_a_preloaded_malloc_takes_no_part(self):
        result = quick("--json", "1M", variables={"LD_PRELOAD": settings.library}, code=0)
        self.assertIn("removed from all runs", result.stderr)

    def test_an_unloadable_allocator_is_left_out_and_named(self):
        plain = self.compile("libplain.so", "int plain() { return 1; }", "-shared", "-fPIC")
        result = tarn("cost", "-r", "1", "--only", "system,plain", "--malloc", f"plain={plain}", "1M", code=0)
        self.assertIn("plain left out", result.stderr)

    def test_an_allocator_without_memory_is_reported(self):
        source = """#include <cstddef>
                    #include <cerrno>
                    extern "C" void* __libc_malloc(size_t);
                    extern "C" void* malloc(size_t n) noexcept {
                      if (n >= 4 << 20) { errno = ENOMEM; return nullptr; }
                      return __libc_malloc(n);
                    }"""
        poor = self.compile("libpoor.so", source, "-shared", "-fPIC")
        result = tarn("cost", "-r", "2", "--only", "poor", "--malloc", f"poor={poor}", "2M", "4M", code=0)
        self.assertIn("poor, 4 MiB: not measured: cannot allocate 4 MiB: Cannot allocate memory", result.stderr)
        self.assertNotIn("poor, 2 MiB: not measured", result.stderr)
        self.assertIn("poor", result.stdout)

    def test_works_within_limited_address_space(self):
        result = self.execute("sh", "-c", f"ulimit -v 400000; exec {settings.tarn} cost -r 1 --only system 1M 256M", code=0)
        self.assertIn("256 MiB skipped", result.stderr)
        self.assertRegex(result.stdout, r"(?m)^system +\d")

    def test_no_rights_are_needed(self):
        for error in (errno.EACCES, errno.ENOSYS):
            self.check_restricted(preexec_fn=lambda error=error: forbid_perf_event_open(error))

    @unittest.skipIf(os.geteuid() != 0, "only root can become another user")
    def test_as_an_ordinary_user(self):
        # A copy, as the build folder may be readable by root only.
        os.chmod(self.folder, 0o755)
        command = self.path("tarn")
        shutil.copy(settings.tarn, command)
        self.check_restricted(command, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")

    def check_restricted(self, command=None, **how):
        words = (["cost", "-r", "1", "--only", "system,mmap", "2M"], ["cost", "--watch", "--for", "0.2"],
                 ["cost", "--watch", str(os.getpid()), "--for", "0.2"])
        for one in words:
            result = self.execute(command or settings.tarn, *one, **how)
            if result.returncode == 99:
                self.skipTest("no system call filters here")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue("true" in result.stdout or "average of" in result.stdout, result.stdout)

    def test_interruption(self):
        with subprocess.Popen([settings.tarn, "cost", "-r", "100"], env=environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=30)
        self.assertEqual((process.returncode, output), (-signal.SIGINT, ""))
        self.assertEqual(errors.count("interrupted; no figures"), 1, errors)

    def test_bad_arguments(self):
        refused = self.assert_refused
        refused(quick("eight"), 2, "'eight': not a size", "8MiB")
        refused(quick("99999999G"), 125, "99,999,999 GiB skipped", "too small for all of the sizes", "tarn cost 8M")
        refused(tarn("cost", "--only", "systm"), 2, "no way has this name", "'system'")
        refused(tarn("cost", "--only", "mmap-hug"), 2, "'mmap-huge'")
        refused(tarn("cost", "--malloc", "mmap=libx.so"), 2, "cannot be a library's name")
        refused(tarn("cost", "8M", "--watch"), 2, "--watch must come before")
        self.assertEqual(tarn("--cost-worker").returncode, 2)

    def test_a_size_that_does_not_fit_is_skipped_and_reported(self):
        result = quick("1M", "99999999G", code=0)
        self.assertIn("99,999,999 GiB skipped", result.stderr)
        self.assertIn("1 MiB", result.stdout)


ROW = r"^ +\d+ +[\d.,]+"


class watch(Base):
    def start_refaulting(self):
        return self.launch(sys.executable, "-c", REFAULT, "-1")

    def rates(self, text):
        return [one for one in map(json.loads, text.splitlines()) if not one["summary"]]

    def test_machine(self):
        self.start_refaulting()
        result = tarn("cost", "--watch", "--for", "1.2", "--interval", "0.3", code=0)
        lines = result.stdout.splitlines()
        self.assertIn("huge/s", lines[0])
        self.assertEqual(len([line for line in lines if re.match(ROW, line)]), 4, result.stdout)
        self.assertRegex(result.stdout, r"average of 1\.\d s: [\d,.]+k?M? faults/s")
        heading = next(n for n, line in enumerate(lines) if line.startswith("process"))
        rows = [line.split()[-5].replace(",", "") for line in lines[heading + 1:-1] if re.match(r"\S+ +\d+ ", line)]
        faults = [float(figure.replace("k", "e3").replace("M", "e6")) for figure in rows]
        self.assertEqual(faults, sorted(faults, reverse=True), result.stdout)
        self.assertRegex(lines[-1], r"tarn cost --watch \d+")
        self.assertIn("prices: ", result.stderr)

    def test_process(self):
        busy = self.start_refaulting()
        result = tarn("cost", "--watch", "--for", "1", "--interval", "0.25", "--json", str(busy.pid), code=0)
        self.assertIn(f"({busy.pid})", result.stderr)
        text = result.stdout
        rates = self.rates(text)
        self.assertEqual(len(rates), 4)
        summary = json.loads(text.splitlines()[-1])
        self.assertTrue(summary["summary"])
        self.assertGreater(summary["faults_per_second"], 1000)
        self.assertGreater(summary["fault_share"], summary["zeroing_share"])

    def test_process_at_rest(self):
        with subprocess.Popen(["sleep", "60"]) as idle:
            result = tarn("cost", "--watch", "--for", "0.5", "--json", str(idle.pid))
            idle.kill()
        summary = json.loads(result.stdout.splitlines()[-1])
        self.assertLess(summary["faults_per_second"], 100)
        self.assertIn("average of", result.stderr)

    def test_process_that_ends_while_watched(self):
        short = self.launch("cat", stdin=subprocess.PIPE)
        with subprocess.Popen([settings.tarn, "cost", "--watch", "--interval", "0.2", str(short.pid)], env=environment(),
                              stdout=subprocess.PIPE, text=True) as watcher:
            output = watcher.stdout.readline()  # it has been seen alive
            short.stdin.close()
            output += watcher.communicate(timeout=60)[0]
        self.assertEqual(watcher.returncode, 0, output)
        self.assertIn(f"process {short.pid} has ended", output)
        self.assertIn("average of", output)

    def test_no_such_process(self):
        with subprocess.Popen(["true"]) as gone:
            pass
        self.assert_refused_at_last(tarn("cost", "--watch", str(gone.pid)), f"process {gone.pid} has ended, or does not exist")
        self.assert_refused_at_last(tarn("cost", "--watch", "0"), "process 0 has ended, or does not exist")
        self.assert_refused_at_last(tarn("cost", "--watch", "99999999999999"), "process 99999999999999 has ended, or does not exist")

    def assert_refused_at_last(self, result, phrase):
        self.assertEqual(result.returncode, 125, result.stderr)
        self.assertIn(phrase, result.stderr)
        self.assertIn("ps -e", result.stderr)

    def test_program_and_its_children(self):
        script = f"{sys.executable} -c '{REFAULT}' 20; echo done; exit 3"
        result = tarn("cost", "--watch", "--interval", "0.1", "--", "sh", "-c", script, code=3)
        self.assertEqual(result.stdout, "done\n")
        self.assertIn("exit status 3", result.stderr)
        self.assertGreater(len(re.findall("(?m)" + ROW, result.stderr)), 1, result.stderr)
        self.assertIn("average of", result.stderr)

    def test_program_counts_are_whole(self):
        result = tarn("cost", "--watch", "--json", "--", sys.executable, "-c", REFAULT, "20")
        summary = json.loads([line for line in result.stderr.splitlines() if line.startswith("{")][-1])
        faults = summary["faults_per_second"] * summary["seconds"]
        small = open("/sys/kernel/mm/transparent_hugepage/enabled").read().find("[always]") < 0
        if small and os.sysconf("SC_PAGE_SIZE") == 4096:
            self.assertGreaterEqual(faults, 20 * 1024)
            self.assertLess(faults, 20 * 1024 + 10000)

    def test_program_that_cannot_be_started(self):
        missing = tarn("cost", "--watch", "--", "no-such-program-xyzzy")
        self.assert_refused(missing, 127, "no-such-program-xyzzy")
        plain = self.write("plain", "text", 0o644)
        self.assert_refused(tarn("cost", "--watch", "--", plain), 126)

    def test_interruption_ends_with_the_average(self):
        for words in ((), ("--", "sleep", "60")):
            with subprocess.Popen([settings.tarn, "cost", "--watch", "--interval", "0.1", *words], env=environment(),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  start_new_session=True) as process:
                stream = process.stderr if words else process.stdout
                seen = ""
                while not re.search("(?m)" + ROW, seen):
                    seen += stream.readline()
                os.killpg(process.pid, signal.SIGINT)
                seen += stream.read()
                process.wait(20)
            # Where tarn started the program, the signal ends both; otherwise tarn ends with status 0.
            self.assertEqual(process.returncode, -signal.SIGINT if words else 0)
            self.assertEqual(seen.count("average of"), 1, seen)

    def test_bad_arguments(self):
        self.assert_refused(tarn("cost", "--watch", "--seed", "1"), 2, "--watch and --seed cannot be used together")
        self.assert_refused(tarn("cost", "--watch", "--for", "2", "--", "sleep", "1"), 2, "--for cannot be used")
        self.assert_refused(tarn("cost", "--watch", "--interval", "0"), 2)
        self.assert_refused(tarn("cost", "--watch", "1", "2"), 2)
