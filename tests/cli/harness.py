# SPDX-License-Identifier: MIT
"""Shared by the end-to-end tests of the `tarn` command: running it, and compiling small programs."""
import atexit
import contextlib
import ctypes
import os
import platform
import select
import shutil
import struct
import subprocess
import tempfile
import time
import types
import unittest


# Set once, from the arguments of end_to_end_test.py.
settings = types.SimpleNamespace(tarn="", library="", stand_in=None, compiler="c++")

# Where `tarn profile` keeps the key by which a user knows recorded commands again.
STATE = tempfile.mkdtemp(prefix="tarn-state-")
atexit.register(shutil.rmtree, STATE, ignore_errors=True)
compiled = {}  # by source and flags: the program


def environment(**more):
    variables = {**os.environ, "TARN_LIBRARY": settings.library, "XDG_STATE_HOME": STATE, **more}
    if "LD_PRELOAD" not in more:
        variables.pop("LD_PRELOAD", None)
    return variables


def finished(words, code=None, **how):
    """Runs a command to its end, and returns its output as text. With `code` it must end so."""
    result = subprocess.run(words, **{"capture_output": True, "text": True, "stdin": None if "input" in how else subprocess.DEVNULL,
                                      "timeout": 200, "check": False, **how})
    assert code in (None, result.returncode), f"{words}: ended with {result.returncode}: {result.stderr}"
    return result


def tarn(*words, variables=None, code=None):
    return finished([settings.tarn, *words], code, env=environment(**(variables or {})), timeout=60)


# Before a command: it is the first process of a namespace of its own, as in a container.
FIRST = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
# For a shell: prints how many processes have ended and were not waited for.
ZOMBIES = "cat /proc/[0-9]*/status 2>/dev/null | grep -c '^State:.Z'; true"


def unread_pipe(full):
    """The end of a pipe for writing, which nobody reads: it is full, or its reader is gone; and what must be closed at last."""
    reading, writing = os.pipe()
    if not full:
        os.close(reading)
        return writing, [writing]
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    return writing, [reading, writing]


def parts_of(terminal, seconds=60):
    """What a terminal shows, in parts, until its other end is closed; b"" where nothing came for a moment."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        part = b""
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                part = os.read(terminal, 65536)
            except OSError:  # EIO: it is closed
                return
            if not part:
                return
        yield part


def refuse_call(number, error, argument=None, value=0):
    """Called in a child before exec (preexec_fn): this system call fails with errno `error` from now on, as on a kernel that does not have
    it; with `argument`, only if its argument of this index is `value`, in 32 bits."""
    architecture = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[platform.machine()]
    load, equal, end = 0x20, 0x15, 0x06
    tail = [(end, 0, 0, 0x00050000 | error), (end, 0, 0, 0x7FFF0000)]
    if argument is not None:
        tail = [(load, 0, 0, 16 + 8 * argument), (equal, 0, 1, value), *tail]
    steps = [(load, 0, 0, 4), (equal, 0, len(tail) + 1, architecture), (load, 0, 0, 0), (equal, 0, len(tail) - 1, number), *tail]
    program = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(program)
    filter_ = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    if libc.prctl(22, 2, ctypes.c_char_p(filter_), 0, 0) != 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        os._exit(99)


class Base(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tarn-cli-")
        self.addCleanup(shutil.rmtree, self.folder)

    def environment(self, **more):
        return environment(**more)

    def execute(self, *words, variables=None, **how):
        """finished() in the test's folder, with these variables beside the usual ones."""
        return finished(words, **{"cwd": self.folder, "env": self.environment(**(variables or {})), **how})

    def launch(self, *words, **how):
        """A process that ends with the test at the latest."""
        process = subprocess.Popen(words, **{"stdin": subprocess.DEVNULL, "text": True, "cwd": self.folder, "env": self.environment(), **how})
        for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
            self.addCleanup(stream.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def unread_pipe(self, full):
        """For the standard error of a process: nobody reads it, and it is full, or its reader is gone."""
        writing, both = unread_pipe(full)
        for each in both:
            self.addCleanup(os.close, each)
        return writing

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def write(self, name, text, mode=0o755):
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def compile(self, name, source, *flags, language="c++"):
        """Many tests use the same program, which is compiled once."""
        path = self.path(name)
        if (source, flags, language) not in compiled:
            self.execute(settings.compiler, "-x", language, "-", "-o", path, *flags, input=source, code=0)
            compiled[source, flags, language] = shutil.copy(path, os.path.join(STATE, f"program-{len(compiled)}"))
        else:
            shutil.copy(compiled[source, flags, language], path)
        return path

    def assert_refused(self, result, code, *phrases):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertTrue(result.stderr.startswith("tarn: "), result.stderr)
        for phrase in phrases:
            self.assertIn(phrase, result.stderr)
        self.assertEqual(result.stdout, "")


class MadeProfiles(Base):
    def make(self, name, *words):
        """The path of a synthetic profile: make_profile.cpp says what the words mean."""
        path = self.path(name)
        self.execute(settings.make_profile, path, *map(str, words), code=0)
        return path
