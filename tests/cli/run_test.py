# SPDX-License-Identifier: MIT
"""End-to-end: `tarn run`, and signals through it."""
import json
import os
import pty
import signal
import subprocess
import sys
import time
import types

from harness import FIRST, ZOMBIES, Base, environment, parts_of, settings, tarn


class run(Base):
    def test_passes_status_output_and_arguments(self):
        result = tarn("run", "--", "sh", "-c", 'printf "%s|" "$@"; echo err >&2; exit 7', "x", "a b", "",
                      "--stats")
        self.assertEqual(result.returncode, 7)
        self.assertEqual(result.stdout, "a b||--stats|")
        self.assertEqual(result.stderr, "err\n")

    def test_the_library_is_mapped_in_the_program(self):
        result = tarn("run", "--", "grep", "-c", os.path.basename(settings.library), "/proc/self/maps", code=0)
        self.assertGreater(int(result.stdout), 0)

    def test_goes_before_other_preloads_and_keeps_them(self):
        other = "/lib/does-not-matter.so"
        result = tarn("run", "--", "sh", "-c", "echo $LD_PRELOAD; echo ${TARN_LIBRARY-unset}",
                      variables={"LD_PRELOAD": other})
        first, second = result.stdout.split()
        self.assertEqual(first, f"{settings.library}:{other}")
        self.assertEqual(second, "unset")

    def test_death_by_signal_is_seen_as_such(self):
        for options in ([], ["--stats"]):
            result = tarn("run", *options, "--", "sh", "-c", "kill -SEGV $$")
            self.assertEqual(result.returncode, -signal.SIGSEGV)

    def test_a_link_to_a_program_beside_its_libraries(self):
        os.mkdir(self.path("bin"))
        self.compile("bin/libnear.so", "extern \"C\" int near_one() { return 1; }", "-shared", "-fPIC")
        self.compile("bin/far", "extern \"C\" int near_one(); int main() { return near_one() + 41; }", "-L" + self.folder + "/bin",
                     "-lnear", "-Wl,-rpath,$ORIGIN")
        link = self.path("link")
        os.symlink("bin/far", link)
        result = tarn("run", "--", link)
        self.assertEqual((result.returncode, result.stderr), (42, ""))

    def test_statistics(self):
        result = tarn("run", "--stats", "--", "sh", "-c", "exit 5")
        self.assertEqual(result.returncode, 5)
        for row in ("exit status 5", "wall", "user", "system", "peak RSS", "page faults", "returned"):
            self.assertIn(row, result.stderr)

    def test_statistics_as_json(self):
        result = tarn("run", "--json", "--", "cat", "/dev/null")
        figures = json.loads(result.stderr)
        self.assertEqual(figures["exit_status"], 0)
        self.assertIsNone(figures["signal"])
        self.assertEqual(figures["program"], ["cat", "/dev/null"])
        self.assertGreater(figures["wall_seconds"], 0)
        self.assertGreater(figures["minor_faults"], 0)
        self.assertGreater(figures["peak_rss_bytes"], 500_000)
        self.assertEqual(figures["processes_reporting"], 1)

    def test_peak_memory_is_the_programs(self):
        program = self.compile("big", "#include <cstring>\n#include <cstdlib>\n"
                               "int main() { auto* p = static_cast<char*>(malloc(50u << 20));"
                               " memset(p, 1, 50u << 20); return p[12345] - 1; }", "-O0")
        figures = json.loads(tarn("run", "--json", "--", program).stderr)
        self.assertGreater(figures["peak_rss_bytes"], 50 << 20)
        self.assertLess(figures["peak_rss_bytes"], 60 << 20)

    def test_returned_bytes_are_summed_over_processes(self):
        twice = "cat /dev/null; cat /dev/null; exit 0"
        figures = json.loads(tarn("run", "--json", "--", "sh", "-c", twice).stderr)
        self.assertGreaterEqual(figures["processes_reporting"], 2)
        if settings.stand_in:
            self.assertEqual(figures["returned_bytes"], figures["processes_reporting"] << 20)

    def test_programs_that_skip_exit_handlers_report_nothing(self):
        result = tarn("run", "--stats", "--", "sh", "-c", "kill -9 $$")
        self.assertEqual(result.returncode, -signal.SIGKILL)
        self.assertIn("not reported (the program ended without running exit handlers, or in a sandbox)", result.stderr)

    def test_no_temporary_file_is_left(self):
        tarn("run", "--stats", "--", "true", variables={"TMPDIR": self.folder})
        self.assertEqual(os.listdir(self.folder), [])
        for full, status in ((False, 0), (True, -signal.SIGTERM)):
            process = self.launch(settings.tarn, "run", "--stats", "--", "true", stderr=self.unread_pipe(full), env=environment(TMPDIR=self.folder))
            time.sleep(1)
            process.terminate()
            self.assertEqual((process.wait(20), os.listdir(self.folder)), (status, []))

    def test_orphans_of_a_container_are_waited_for(self):
        program = f"i=0; while [ $i -lt 100 ]; do (true &); i=$((i+1)); done; sleep 1.2; {ZOMBIES}"
        for words in (["run", "--stats"], ["profile", "-q", "-o", self.path("x.prof")], ["profile", "--paused"], ["cost", "--watch"]):
            result = self.execute(*FIRST, settings.tarn, *words, "--", "sh", "-c", program)
            if "unshare failed" in result.stderr:
                self.skipTest(result.stderr)
            self.assertEqual((result.returncode, result.stdout), (0, "0\n"), (words, result.stderr))

    def test_scripts_run(self):
        script = self.write("script", "#!/usr/bin/env sh\necho ran $1\n")
        self.assertEqual(tarn("run", "--", script, "well").stdout, "ran well\n")

    def test_without_dashes(self):
        self.assertEqual(tarn("run", "echo", "-n", "x").stdout, "x")


def defaults():
    """Called in a child before exec. Restores default actions: processes in the background or under nohup ignore some
    of these signals, and a shell cannot trap a signal that was ignored. The child gets a process group of its own, as
    SIGTSTP does not stop an orphaned group."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)
    os.setpgid(0, 0)


class signals(Base):
    def start(self, *options):
        script = ('for s in INT TERM HUP QUIT USR1 USR2 WINCH; do trap "echo got $s" $s; done;'
                  'trap "exit 9" PIPE;'
                  'echo ready; while :; do sleep 0.02; done')
        process = self.launch(settings.tarn, "run", *options, "--", "sh", "-c", script, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, preexec_fn=defaults)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def child_of(self, process):
        return int(self.read(f"/proc/{process.pid}/task/{process.pid}/children").split()[0])

    def test_signals_reach_the_program(self):
        for options in ([], ["--stats"]):
            process = self.start(*options)
            for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH"):
                process.send_signal(getattr(signal, "SIG" + name))
                self.assertEqual(process.stdout.readline(), f"got {name}\n")
            os.kill(self.child_of(process) if options else process.pid, signal.SIGPIPE)
            self.assertEqual(process.wait(20), 9)

    def test_default_action_ends_both_by_the_signal(self):
        process = subprocess.Popen([settings.tarn, "run", "--stats", "--", "sleep", "30"],
                                   stderr=subprocess.DEVNULL, env=environment())
        time.sleep(0.3)
        process.terminate()
        self.assertEqual(process.wait(20), -signal.SIGTERM)

    def test_stop_and_continue(self):
        process = self.start("--stats")
        child = self.child_of(process)
        os.kill(process.pid, signal.SIGTSTP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))
        self.assertEqual(self.state_of(child), "T")
        os.kill(process.pid, signal.SIGCONT)
        deadline = time.monotonic() + 10
        while self.state_of(child) == "T" and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertNotEqual(self.state_of(child), "T")
        os.kill(child, signal.SIGPIPE)
        self.assertEqual(process.wait(20), 9)

    def state_of(self, pid):
        return self.read(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]

    def test_other_signals_reach_the_program_too(self):
        for number in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR, signal.SIGXCPU,
                       signal.SIGRTMIN, signal.SIGRTMAX):
            process = self.launch(settings.tarn, "run", "--stats", "--", sys.executable, "-c", "import signal, time\n"
                                  f"signal.signal({int(number)}, lambda n, _: (print('got', n), exit(5)))\n"
                                  "print('ready', flush=True)\ntime.sleep(20)", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(number)
            self.assertEqual(process.stdout.readline(), f"got {int(number)}\n", number)
            self.assertEqual(process.wait(20), 5)

    def test_a_program_has_the_dispositions_that_tarn_had(self):
        ignored = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGUSR1)
        for numbers in ((), ignored):
            def dispose(numbers=numbers):
                for number in ignored:
                    signal.signal(number, signal.SIG_IGN if number in numbers else signal.SIG_DFL)
            plain = self.execute("grep", "^Sig[BI]", "/proc/self/status", preexec_fn=dispose).stdout
            for words in (["run"], ["run", "--stats"], ["run", "--black-box", self.path("boxes")], ["profile", "-q"], ["cost", "--watch"]):
                result = self.execute(settings.tarn, *words, "--", "grep", "^Sig[BI]", "/proc/self/status", preexec_fn=dispose)
                self.assertEqual(result.stdout, plain, (words, numbers, result.stderr))

    def test_a_stopped_program_of_a_container_stays_stopped(self):
        first = self.launch(*FIRST, settings.tarn, "run", "--stats", "--", "sh", "-c", "kill -STOP $$; exit 7", stderr=subprocess.PIPE)
        time.sleep(1)
        if first.poll() is not None and "unshare failed" in (said := first.stderr.read()):
            self.skipTest(said)
        program = self.child_of(types.SimpleNamespace(pid=self.child_of(first)))
        self.assertEqual(self.state_of(program), "T")
        os.kill(program, signal.SIGCONT)
        self.assertEqual(first.wait(20), 7)

    def test_a_program_that_stops_itself_and_is_continued_by_another_process(self):
        code = ("import os, signal, sys\n"
                "signal.signal(signal.SIGTTIN, signal.SIG_IGN)\n"  # of the other process
                "if os.fork() == 0:\n"
                "  import time\n"
                "  for _ in range(500):\n"
                "    time.sleep(0.02)\n"
                "    if open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[0] == 'T':\n"
                "      time.sleep(0.2)\n"
                "      os.kill(os.getppid(), signal.SIGCONT)\n"
                "      break\n"
                "  os._exit(0)\n"
                "signal.signal(signal.SIGTTIN, signal.SIG_DFL)\n"
                "os.kill(0 if signal.NUMBER == signal.SIGTTIN else os.getpid(), signal.NUMBER)\n"  # as a terminal does
                "print('went on')\n")
        for number in ("SIGTSTP", "SIGSTOP", "SIGTTIN"):
            process = self.launch(settings.tarn, "run", "--stats", "--", sys.executable, "-c", code.replace("NUMBER", number),
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=defaults)
            try:
                self.assertEqual(process.communicate(timeout=20)[0], "went on\n", number)
                self.assertEqual(process.returncode, 0)
            except subprocess.TimeoutExpired:
                self.fail(f"{number}: tarn did not go on with the program")

    def test_the_terminals_interrupt_reaches_a_program_in_a_process_group_of_its_own(self):
        # With the default action: Python's own handler can run just before sleep() begins, which then sleeps on.
        code = ("import os, signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL); os.setpgid(0, 0); "
                "print('ready', flush=True); time.sleep(60)")
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ["TARN_LIBRARY"] = settings.library
            os.execv(settings.tarn, [settings.tarn, "run", "--stats", "--", sys.executable, "-c", code])
        text = b""
        while b"ready" not in text:
            text += os.read(terminal, 4096)
        os.write(terminal, b"\x03")
        deadline = time.monotonic() + 20
        ended, status = 0, 0
        while ended == 0 and time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            time.sleep(0.01)
        if ended == 0:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(terminal)
        self.assertNotEqual(ended, 0, "Ctrl-C has not reached the program")
        self.assertEqual(os.WTERMSIG(status), signal.SIGINT)

    def test_the_terminals_interrupt_arrives_once(self):
        script = self.write("script", "#!/bin/sh\nn=0; c=0\ntrap 'n=$((n+1))' INT\necho ready\n"
                                      "while [ $c -lt 25 ]; do sleep 0.02; c=$((c+1)); done\n"
                                      "echo \"n=$n.\"\n")
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ["TARN_LIBRARY"] = settings.library
            os.execv(settings.tarn, [settings.tarn, "run", "--stats", "--", script])
        text = b""
        sent = False
        for part in parts_of(terminal):
            text += part
            if not sent and b"ready" in text:
                sent = True
                os.write(terminal, b"\x03")
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0, text)
        self.assertIn(b"n=1.", text)
