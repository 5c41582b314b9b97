# SPDX-License-Identifier: MIT
"""End-to-end: whoever answers a command in place of a recorder, or as the process that is asked, may answer anything. Nothing of
it is executed, becomes a file's name, or reaches a terminal as it is; and every command ends."""
import array
import concurrent.futures
import ctypes
import gzip
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import threading
import time
import unittest

from control_test import Server
from cost_test import NOBODY
from harness import Base, environment, parts_of, settings

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"


class PeerBase(Base):
    def run_tarn(self, *words, seconds=30, **variables):
        """Runs in an empty folder, which stays so; what it prints is UTF-8 without control characters."""
        folder = self.path("cwd")
        os.makedirs(folder, exist_ok=True)
        begin = time.monotonic()
        result = self.execute(settings.tarn, *words, cwd=folder, variables=variables, timeout=120, text=False)
        self.assertLess(time.monotonic() - begin, seconds, words)
        result.stdout, result.stderr = (text.decode() for text in (result.stdout, result.stderr))
        found = UNSAFE.search(result.stdout + result.stderr)
        self.assertIsNone(found, (words, result.stdout, result.stderr))
        self.files = os.listdir(folder)
        return result


class Recorder:
    """A process that holds the name of a recorder's socket, and answers `answer` with the file `path`, as `user`."""

    def __init__(self, test, program, answer, path=None, user=None, name="0123456789abcdef"):
        ready, is_ready = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            listener.bind(f"\0tarn-control-{program}.{name}")
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
        self.pid = str(self.launch("sleep", "600").pid)

    def record(self, mark, user=None):
        """The profile of a command that writes `mark`; as `user`."""
        os.chmod(self.folder, 0o777)
        path = self.path("theirs.prof")
        tools = {"tarn": settings.tarn, "recorder.so": settings.recorder}
        for name, source in tools.items():
            shutil.copy(source, self.path(name))
            os.chmod(self.path(name), 0o755)
        who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        state = self.path("state")
        self.execute(self.path("tarn"), "profile", "-q", "--mode", "full", "-o", path, "--", "/bin/sh", "-c",
                     f"echo x >> {mark}; /bin/true", **who,
                     variables=dict(TARN_RECORDER=self.path("recorder.so"), XDG_STATE_HOME=state), code=0)
        return path

    @unittest.skipUnless(os.geteuid() == 0, "needs two users")
    def test_another_user_who_holds_the_name_is_not_believed(self):
        path = self.record(self.path("mark"), NOBODY)
        os.chmod(path, 0o644)
        answer = json.dumps({"recording": int(self.pid), "path": path, "files": [{"path": "/etc/passwd"}]}).encode()
        Recorder(self, self.pid, answer, path, NOBODY)
        for option in ("--dump", "--stop"):
            self.assert_refused(self.run_tarn("attach", option, self.pid), 125, "is not being recorded by this user")
            self.assertEqual(self.files, [])
        # And nobody keeps the program from being recorded.
        result = self.run_tarn("attach", "--for", "0.1", "-o", self.path("mine.prof"), self.pid,
                               TARN_RECORDER=settings.recorder)
        self.assertIn("recording process", result.stderr)

    def test_a_command_in_a_dump_is_not_run_unless_this_user_recorded_it(self):
        mark = self.path("mark")
        path = self.record(mark, NOBODY if os.geteuid() == 0 else None)
        self.assertEqual(len(open(mark, encoding="utf-8").read()), 2)
        Recorder(self, self.pid, b"{}", path)  # of this user, with a file of somebody else's
        result = self.run_tarn("attach", "--dump", self.pid)
        self.assertEqual(result.stdout, f"tarn-{self.pid}-dump-1.prof\n", result.stderr)
        copy = self.path("cwd", result.stdout.strip())
        self.assertEqual(os.stat(copy).st_uid, os.geteuid())
        self.assert_refused(self.run_tarn("prove", "--rounds", "1", copy), 125, "does not say how its program was started")
        mine = shutil.copy(path, self.path("mine.prof"))
        self.assert_refused(self.run_tarn("prove", "--rounds", "1", mine), 125, "the command in it would run with your rights",
                            "--trust-file", "/bin/sh '-c'")
        self.assertEqual(len(open(mark, encoding="utf-8").read()), 2)
        result = self.run_tarn("prove", "--rounds", "1", "--only", "keep-memory", "--trust-file", mine, seconds=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(len(open(mark, encoding="utf-8").read()), 2)

    def test_at_a_terminal_it_is_asked(self):
        mark = self.path("mark")
        path = self.record(mark)
        for answer, status in ((b"n\n", 125), (b"\n", 125), (b"y\n", 0)):
            here, there = pty.openpty()
            process = subprocess.Popen([settings.tarn, "prove", "--rounds", "1", "--only", "keep-memory", path], stdin=there,
                                       stderr=there, stdout=subprocess.DEVNULL, env=environment())
            os.close(there)
            os.write(here, answer)
            said = b"".join(parts_of(here))
            os.close(here)
            self.assertEqual(process.wait(timeout=60), status, said)
            self.assertIn(b"Run it? [y/N]", said)
            self.assertEqual(len(open(mark, encoding="utf-8").read()) > 2, status == 0)

    def test_answers_that_make_no_sense(self):
        for answer in (b"", b"x", b"[]", b"null", b"\xff\xfe", b"[" * 60000, b'{"a":' * 10000, b'{"path":1,"files":{"a":2}}',
                       b'{"files":[1,{"path":5},[]]}', b'{"problem":{},"advice":[]}', b"{}"):
            with self.subTest(answer[:20]):
                recorder = Recorder(self, self.pid, answer)
                for option in ("--dump", "--stop"):
                    result = self.run_tarn("attach", option, self.pid)
                    self.assertIn(result.returncode, (0, 125))
                    self.assertEqual(self.files, [], (option, answer[:20]))
                    self.run_tarn("attach", option, "--json", self.pid)
                os.kill(recorder.process, 9)
                time.sleep(0.05)

    def test_names_that_no_recorder_has(self):
        for name in ("0123456789abcdeg", "0123456789abcdef0", "", "0" * 60):
            recorder = Recorder(self, self.pid, b'{"files":[]}', name=name)
            self.assert_refused(self.run_tarn("attach", "--stop", self.pid), 125, "is not being recorded by this user")
            os.kill(recorder.process, 9)

    def test_texts_of_an_answer_reach_the_terminal_escaped(self):
        for answer in ({"files": [{"path": "/tmp/" + ESCAPES}], ESCAPES: [ESCAPES]}, {"problem": ESCAPES, "advice": ESCAPES}):
            recorder = Recorder(self, self.pid, json.dumps(answer, ensure_ascii=False).encode())
            for words in (["attach", "--stop"], ["attach", "--stop", "--json"], ["attach", "--dump"], ["attach", "--dump", "--json"]):
                self.run_tarn(*words, self.pid)
                self.assertEqual(self.files, [])
            os.kill(recorder.process, 9)
            time.sleep(0.05)

    def test_a_file_of_an_answer_may_be_anything(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        self.addCleanup(os.close, os.open(pipe, os.O_RDWR))  # whoever reads from it waits
        for path in (pipe, "/dev/zero", "/", "/etc/passwd", "/dev/null"):
            recorder = Recorder(self, self.pid, b"{}", path)
            self.assertEqual(self.run_tarn("attach", "--dump", self.pid).returncode, 125, path)
            self.assertEqual(self.files, [], path)
            os.kill(recorder.process, 9)
            time.sleep(0.05)


class Process:
    """A process whose thread has the name of a control thread, and a listening socket: it is asked, and answers `answers`
    (bytes by command, or a function of the connection)."""

    def __init__(self, test, answers, own=True):
        path = os.path.join(test.folder, f"x{len(os.listdir(test.folder))}")
        ready, is_ready = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            listener.listen(8)
            if not own:  # the one that holds it is not the one that listens at it
                holder = os.fork()
                if holder != 0:
                    os.waitpid(holder, 0)
                    os._exit(0)
            threading.Thread(target=self.serve, args=(listener, answers, is_ready), daemon=True).start()
            time.sleep(600)
            os._exit(0)
        test.addCleanup(os.waitpid, self.pid, 0)
        test.addCleanup(os.kill, self.pid, 9)
        self.pid = int.from_bytes(os.read(ready, 4), "little")
        if not own:
            test.addCleanup(os.kill, self.pid, 9)
        os.close(ready)
        os.close(is_ready)

    @staticmethod
    def serve(listener, answers, is_ready):
        ctypes.CDLL(None).prctl(15, b"tarn-control", 0, 0, 0)
        os.write(is_ready, os.getpid().to_bytes(4, "little"))
        while True:
            connection, _ = listener.accept()
            try:
                if callable(answers):
                    answers(connection)
                else:
                    words = connection.recv(512).decode().split()
                    connection.sendall(answers.get("".join(words[1:2]), b"tarn/1 ok 0\n"))
            except OSError:
                pass
            connection.close()


def body(text):
    return b"tarn/1 ok %d\n" % len(text) + text


def drip(connection):
    connection.recv(512)
    while True:
        connection.sendall(b"t")
        time.sleep(0.5)


def never(connection):
    time.sleep(600)


def endless(connection):
    connection.recv(512)
    connection.sendall(b"tarn/1 ok 999999999999\n")
    while True:
        connection.sendall(b"x" * 65536)


VERBS = (["control", "--metrics"], ["control", "--metrics", "--json"], ["control", "--trim"], ["control", "--trim", "--json"], ["control"], ["control", "--json"], ["control", "decay_ms=1"],
         ["top", "--once"], ["top", "--once", "--json"], ["control", "--samples", "heap"], ["control", "--samples", "heap", "--json"])


class answers(PeerBase):
    """Every command that asks a process, which answers as it likes."""

    def ask(self, process, verbs=VERBS, **more):
        results = []
        for verb, *words in verbs:
            options = [word for word in words if "=" not in word]
            changes = [word for word in words if "=" in word]
            results.append(self.run_tarn(verb, *options, str(process.pid), *changes, **more))
            self.assertIn(results[-1].returncode, (0, 125), (verb, words, results[-1].stderr))
        return results

    def assert_nothing_was_written(self):
        self.assertEqual(self.files, [])

    def test_garbage(self):
        for text in (b"", b"\n", b"x", b"tarn/1 ok -1\n", b"tarn/1 ok 5\nabc", b"tarn/1 ok\n", b"tarn/2 ok 1\nx", b"tarn/1 what 1\nx",
                     b"\xff" * 100, b"tarn/1 ok 99999999999999999999\n"):
            process = Process(self, {name: text for name in ("metrics", "stats", "options", "set", "trim", "profile", "help")})
            for result in self.ask(process, (["control", "--metrics"], ["control"], ["control", "--trim"], ["control", "--samples", "heap"])):
                self.assertEqual((result.returncode, result.stdout), (125, ""), text)
                self.assert_nothing_was_written()

    def test_control_sequences_and_invalid_texts(self):
        evil = ESCAPES.encode() + b"\xff\xfe\r\n"
        sent = {"metrics": body(b"# HELP tarn_x " + evil + b"# TYPE x gauge\nx 1 " + evil + b"tarn_a{b=\"" + evil[:-2] + b"\"} 1\n" + evil),
                "stats": body(json.dumps({ESCAPES: [ESCAPES], "a": {"b": ESCAPES}}, ensure_ascii=False).encode()),
                "options": body(evil + b"a\t" + evil[:-2] + b"\tb\tyes\t" + evil), "set": body(evil),
                "trim": body(b"1\n"), "profile": body(b"\x32\x00\x32" + bytes([len(evil)]) + evil)}
        process = Process(self, sent)
        self.ask(process)
        self.assertEqual(sorted(self.files), [f"tarn-{process.pid}-heap-{number}.pb.gz" for number in (1, 2)])
        for name in self.files:
            with gzip.open(self.path("cwd", name)) as file:
                self.assertNotIn(b"\x1b", file.read())
        self.ask(Process(self, {name: b"tarn/1 error %d\n" % len(evil) + evil for name in sent}))

    def test_answers_that_are_too_long_or_too_deep(self):
        most = {"metrics": 16 << 20, "options": 64 << 10, "set": 64 << 10, "trim": 64 << 10, "stats": 1 << 20, "profile": 64 << 20}
        process = Process(self, {name: b"tarn/1 ok %d\n" % (size + 1) for name, size in most.items()})
        for result in self.ask(process):
            self.assertIn("is longer than", result.stderr)
        self.assert_nothing_was_written()
        for result in self.ask(Process(self, {name: b"tarn/1 error 4097\n" for name in most}), (["control", "--metrics"], ["control"], ["control", "--trim"])):
            self.assertIn("is longer than 4096 bytes", result.stderr)
        for number in (b"1" * 60000 + b"\n", b"12x\n", b"12", b"-1\n", b"\n"):
            self.assertEqual(self.ask(Process(self, {"trim": body(number)}), (["control", "--trim"],))[0].returncode, 125, number[:9])
        options = self.ask(Process(self, {"options": body(b"a\t\t\tyes\t\n" * 2000)}), (["control", "--json"],))[0].stdout
        self.assertEqual(len(json.loads(options)), 1000)
        process = Process(self, {"stats": body(b'{"a":' * 100000 + b"1" + b"}" * 100000), "trim": body(b"1" * 60000),
                                 "profile": body(b"\x0a\xff\xff\xff\xff\x0f")})
        for result in self.ask(process, (["control", "--metrics", "--json"], ["control", "--trim"], ["control", "--samples", "heap"])):
            self.assertEqual(result.returncode, 125)
        self.assert_nothing_was_written()

    def test_no_end_and_no_beginning(self):
        process = Process(self, endless)
        for result in self.ask(process, (["control", "--metrics"], ["control"], ["control", "--samples", "heap"])):
            self.assertIn("is longer than", result.stderr)
        # A letter each half second is progress, but there is a limit for all of it.
        slow = [Process(self, drip), Process(self, never)]
        with concurrent.futures.ThreadPoolExecutor() as at_once:
            for result in at_once.map(lambda process: self.ask(process, (["control", "--metrics"],))[0], slow):
                self.assertEqual(result.returncode, 125)
                self.assertIn("does not answer in time", result.stderr)
        self.assert_nothing_was_written()

    def test_another_process_behind_the_socket(self):
        process = Process(self, {"metrics": body(b"tarn_a 1\n")}, own=False)
        for result in self.ask(process, (["control", "--metrics"], ["control", "--samples", "heap"])):
            self.assertEqual((result.returncode, result.stdout), (125, ""))
            self.assertIn("answers in its place", result.stderr)
        self.assert_nothing_was_written()

    def test_names_of_files_are_tarn_s_and_new(self):
        process = Process(self, {"profile": body(b"\x32\x00")})
        cwd = self.path("cwd")
        os.makedirs(cwd)
        victim = self.write("victim", "precious")
        os.symlink(victim, os.path.join(cwd, f"tarn-{process.pid}-heap-1.pb.gz"))
        result = self.run_tarn("control", "--samples", "heap", str(process.pid))
        self.assertEqual(result.stdout, f"tarn-{process.pid}-heap-2.pb.gz\n")
        self.assertEqual(self.read(victim), "precious")

    def serve(self, *processes):
        server = Server(self, *[str(process.pid) for process in processes])
        return server, lambda page, **headers: server.get(page, **headers)

    def test_serve_passes_nothing_on(self):
        forged = (b'tarn_in_use_bytes{pid="1",program="database"} 0\ntarn_x{a="\xff\xfe\x1b[2J"} 1\nthis is no metric\n'
                  b'tarn_up{pid="1"} 1\nup 0\n# TYPE tarn_y counter\n# UNIT tarn_y bytes\ntarn_y 1\ntarn_y 2\n')
        first = Process(self, {"metrics": body(forged), "profile": body(b"no profile"), "help": body(b"\x1b")})
        second = Process(self, {"metrics": body(b"tarn_y 5\n")})
        _, get = self.serve(first, second)
        for accept in ("text/plain", "application/openmetrics-text"):
            status, _, text = get("metrics", Accept=accept)
            self.assertEqual(status, 200)
            for line in text.splitlines():
                self.assertRegex(line, r'^(# (TYPE|UNIT|HELP|EOF).*|tarn_[a-z_]+\{(pid="\d+")(,program="[^"\\]*")?(,a="[ -~]*")?\} \d+)$')
            self.assertEqual(text.count("tarn_y{"), 2)
            self.assertNotIn("database", text)
            self.assertEqual(len(re.findall("tarn_up{", text)), 2)
        status, _, text = get(f"debug/pprof/heap?pid={first.pid}")
        self.assertEqual(status, 503)
        self.assertIn("no profile", text)

    def test_serve_goes_on_beside_one_that_does_not_answer(self):
        good = Process(self, {"metrics": body(b"tarn_y 5\n"), "help": body(b"x")})
        hangs = Process(self, lambda connection: connection.sendall(body(b"x")) if b"help" in connection.recv(512) else time.sleep(600))
        _, get = self.serve(good, hangs)
        begin = time.monotonic()
        text = get("metrics")[2]
        self.assertLess(time.monotonic() - begin, 20)
        self.assertIn("tarn_y{", text)
        self.assertIn(f'tarn_up{{pid="{hangs.pid}"}} 0', text)
