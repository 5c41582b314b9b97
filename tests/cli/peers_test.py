# SPDX-License-Identifier: MIT
"""End-to-end: whoever answers a command in place of a recorder, or as the process that is asked, may answer anything. Nothing of
it is executed, becomes a file's name, or reaches a terminal as it is; and every command ends."""
import array
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import time
import unittest

from cost_test import NOBODY
from harness import Base, environment, settings, tarn

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"


class PeerBase(Base):
    def run_tarn(self, *words, seconds=30, **variables):
        """Runs in an empty folder, which stays so; what it prints is UTF-8 without control characters."""
        folder = os.path.join(self.folder, "cwd")
        os.makedirs(folder, exist_ok=True)
        begin = time.monotonic()
        result = subprocess.run([settings.tarn, *words], capture_output=True, stdin=subprocess.DEVNULL, cwd=folder,
                                env=environment(**variables), timeout=120, check=False)
        self.assertLess(time.monotonic() - begin, seconds, words)
        result.stdout, result.stderr = (text.decode() for text in (result.stdout, result.stderr))
        found = UNSAFE.search(result.stdout + result.stderr)
        self.assertIsNone(found, (words, result.stdout, result.stderr))
        self.files = os.listdir(folder)
        return result


class Recorder:
    """A process that holds the name of a recorder's socket, and answers `answer` with the file `path`, as `user`."""

    def __init__(self, test, program, answer, path=None, user=None):
        ready, is_ready = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            listener.bind(f"\0tarn-control-{program}.0123456789abcdef")
            listener.listen(8)
            os.write(is_ready, b"x")
            while True:
                connection, _ = listener.accept()
                rights = []
                if path:
                    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))]
                try:
                    connection.recv(65536)
                    connection.sendmsg([answer], rights)
                except OSError:
                    pass
                connection.close()
        test.addCleanup(os.waitpid, self.process, 0)
        test.addCleanup(os.kill, self.process, 9)
        os.read(ready, 1)
        os.close(ready)
        os.close(is_ready)


class sessions(PeerBase):
    """`tarn attach`, `dump` and `detach` ask a recorder."""

    def setUp(self):
        super().setUp()
        self.program = subprocess.Popen(["sleep", "600"])
        self.addCleanup(self.program.wait)
        self.addCleanup(self.program.kill)
        self.pid = str(self.program.pid)

    def record(self, mark, user=None):
        """The profile of a command that writes `mark`; as `user`."""
        os.chmod(self.folder, 0o777)
        path = os.path.join(self.folder, "theirs.prof")
        tools = {"tarn": settings.tarn, "recorder.so": settings.recorder}
        for name, source in tools.items():
            shutil.copy(source, os.path.join(self.folder, name))
            os.chmod(os.path.join(self.folder, name), 0o755)
        who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        state = os.path.join(self.folder, "state")
        result = subprocess.run([os.path.join(self.folder, "tarn"), "profile", "-q", "-m", "full", "-o", path, "--", "/bin/sh", "-c",
                                 f"echo x >> {mark}; /bin/true"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                check=False, cwd=self.folder, timeout=60, **who,
                                env=environment(TARN_RECORDER=os.path.join(self.folder, "recorder.so"), XDG_STATE_HOME=state))
        self.assertEqual(result.returncode, 0, result.stderr)
        return path

    @unittest.skipUnless(os.geteuid() == 0, "needs two users")
    def test_another_user_who_holds_the_name_is_not_believed(self):
        path = self.record(os.path.join(self.folder, "mark"), NOBODY)
        os.chmod(path, 0o644)
        answer = json.dumps({"recording": int(self.pid), "path": path, "files": [{"path": "/etc/passwd"}]}).encode()
        Recorder(self, self.pid, answer, path, NOBODY)
        for verb in ("dump", "detach"):
            self.assert_refused(self.run_tarn(verb, self.pid), 125, "is not being recorded by this user")
            self.assertEqual(self.files, [])
        # And nobody keeps the program from being recorded.
        result = self.run_tarn("attach", "-d", "0.1", "-o", os.path.join(self.folder, "mine.prof"), self.pid,
                               TARN_RECORDER=settings.recorder)
        self.assertIn("recording process", result.stderr)

    def test_a_command_in_a_dump_is_not_run_unless_this_user_recorded_it(self):
        mark = os.path.join(self.folder, "mark")
        path = self.record(mark, NOBODY if os.geteuid() == 0 else None)
        self.assertEqual(len(open(mark, encoding="utf-8").read()), 2)
        Recorder(self, self.pid, b"{}", path)  # of this user, with a file of somebody else's
        result = self.run_tarn("dump", self.pid)
        self.assertEqual(result.stdout, f"tarn-{self.pid}-dump-1.prof\n", result.stderr)
        copy = os.path.join(self.folder, "cwd", result.stdout.strip())
        self.assertEqual(os.stat(copy).st_uid, os.geteuid())
        self.assert_refused(self.run_tarn("prove", "--rounds", "1", copy), 125, "does not say how its program was started")
        mine = shutil.copy(path, os.path.join(self.folder, "mine.prof"))
        self.assert_refused(self.run_tarn("prove", "--rounds", "1", mine), 125, "you did not record the command in it here",
                            "--trust-file", "/bin/sh '-c'")
        self.assertEqual(len(open(mark, encoding="utf-8").read()), 2)
        result = self.run_tarn("prove", "--rounds", "1", "--ways", "keep-memory", "--trust-file", mine, seconds=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(len(open(mark, encoding="utf-8").read()), 2)

    def test_at_a_terminal_it_is_asked(self):
        mark = os.path.join(self.folder, "mark")
        path = self.record(mark)
        for answer, status in ((b"n\n", 125), (b"\n", 125), (b"y\n", 0)):
            here, there = pty.openpty()
            process = subprocess.Popen([settings.tarn, "prove", "--rounds", "1", "--ways", "keep-memory", path], stdin=there,
                                       stderr=there, stdout=subprocess.DEVNULL, env=environment())
            os.close(there)
            os.write(here, answer)
            said = b""
            try:
                while part := os.read(here, 4096):
                    said += part
            except OSError:
                pass
            os.close(here)
            self.assertEqual(process.wait(timeout=60), status, said)
            self.assertIn(b"Run it? [y/N]", said)
            self.assertEqual(len(open(mark, encoding="utf-8").read()) > 2, status == 0)

    def test_answers_that_make_no_sense(self):
        for answer in (b"", b"x", b"[]", b"null", b"\xff\xfe", b"[" * 60000, b'{"a":' * 10000, b'{"path":1,"files":{"a":2}}',
                       b'{"files":[1,{"path":5},[]]}', b'{"problem":{},"advice":[]}', b"{}"):
            with self.subTest(answer[:20]):
                recorder = Recorder(self, self.pid, answer)
                for verb in ("dump", "detach"):
                    result = self.run_tarn(verb, self.pid)
                    self.assertIn(result.returncode, (0, 125))
                    self.assertEqual(self.files, [], (verb, answer[:20]))
                    self.run_tarn(verb, "--json", self.pid)
                os.kill(recorder.process, 9)
                time.sleep(0.05)

    def test_texts_of_an_answer_reach_the_terminal_escaped(self):
        for answer in ({"files": [{"path": "/tmp/" + ESCAPES}], ESCAPES: [ESCAPES]}, {"problem": ESCAPES, "advice": ESCAPES}):
            recorder = Recorder(self, self.pid, json.dumps(answer, ensure_ascii=False).encode())
            for words in (["detach"], ["detach", "--json"], ["dump"], ["dump", "--json"]):
                self.run_tarn(*words, self.pid)
                self.assertEqual(self.files, [])
            os.kill(recorder.process, 9)
            time.sleep(0.05)

    def test_a_file_of_an_answer_may_be_anything(self):
        pipe = os.path.join(self.folder, "pipe")
        os.mkfifo(pipe)
        for path in (pipe, "/dev/zero", "/", "/etc/passwd", "/dev/null"):
            recorder = Recorder(self, self.pid, b"{}", path)
            self.assertEqual(self.run_tarn("dump", self.pid).returncode, 125, path)
            self.assertEqual(self.files, [], path)
            os.kill(recorder.process, 9)
            time.sleep(0.05)
