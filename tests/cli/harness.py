# SPDX-License-Identifier: MIT
"""Shared by the end-to-end tests of the `tarn` command: running it, and compiling small programs."""
import atexit
import os
import shutil
import subprocess
import tempfile
import unittest


class Settings:
    """Set once by end_to_end_test.py, from its arguments."""
    tarn = ""
    library = ""
    stand_in = None
    compiler = "c++"
    cost_loop = None
    recorder = None
    profile_target = None
    profile_dump = None
    make_profile = None
    hostile_session = None
    attach_target = None
    leak_target = None


settings = Settings()


# Where `tarn profile` keeps the key by which a user knows recorded commands again.
STATE = tempfile.mkdtemp(prefix="tarn-state-")
atexit.register(shutil.rmtree, STATE, ignore_errors=True)


def environment(**more):
    variables = {**os.environ, "TARN_LIBRARY": settings.library, "XDG_STATE_HOME": STATE, **more}
    if "LD_PRELOAD" not in more:
        variables.pop("LD_PRELOAD", None)
    return variables


def tarn(*words, variables=None):
    return subprocess.run([settings.tarn, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env=environment(**(variables or {})), timeout=60, check=False)


class Base(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tarn-cli-")
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text, mode=0o755):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def compile(self, name, source, *flags):
        path = os.path.join(self.folder, name)
        subprocess.run([settings.compiler, "-x", "c++", "-", "-o", path, *flags], input=source, text=True,
                       check=True)
        return path

    def assert_refused(self, result, code, *phrases):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertTrue(result.stderr.startswith("tarn: "), result.stderr)
        for phrase in phrases:
            self.assertIn(phrase, result.stderr)
        self.assertEqual(result.stdout, "")
