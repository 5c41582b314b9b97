# SPDX-License-Identifier: MIT
"""The module's functions in a process that runs on tarn, and in one that does not. Run with libtarn.so preloaded."""

import ctypes
import os
import subprocess
import sys
import unittest

import tarn_memory


class OnTarn(unittest.TestCase):
    def test_is_loaded(self):
        self.assertTrue(tarn_memory.is_loaded())

    def test_stats_follow_a_block(self):
        size = 48 << 20
        before = tarn_memory.stats()
        block = bytearray(size)
        during = tarn_memory.stats()
        del block
        after = tarn_memory.stats()
        self.assertGreaterEqual(during["in_use"], before["in_use"] + size)
        self.assertLess(after["in_use"], during["in_use"] - size // 2)
        self.assertGreater(during["reserved"], 0)

    def test_trim(self):
        block = bytearray(64 << 20)
        block[::4096] = b"\1" * len(block[::4096])
        del block
        returned = tarn_memory.stats()["returned"]
        given_back = tarn_memory.trim()
        self.assertGreaterEqual(tarn_memory.stats()["returned"], returned + given_back)
        for bad in (-1, 1 << 64):
            with self.assertRaises(ValueError):
                tarn_memory.trim(bad)

    def test_options(self):
        before = tarn_memory.options()
        self.assertEqual(before["decay_ms"].standard, "1000")
        tarn_memory.set_option("decay_ms", 5000)
        self.assertEqual(tarn_memory.options()["decay_ms"].value, "5000")
        self.assertEqual(tarn_memory.options()["decay_ms"].source, "program")
        with self.assertRaisesRegex(ValueError, "no option 'decay'; there are: .*decay_ms"):
            tarn_memory.set_option("decay", 1)
        with self.assertRaisesRegex(ValueError, "decay_ms does not accept 'soon'; it accepts milliseconds"):
            tarn_memory.set_option("decay_ms", "soon")
        self.assertEqual(tarn_memory.options()["decay_ms"].value, "5000")
        tarn_memory.set_option("decay_ms", before["decay_ms"].value)

    def test_structure_is_the_library_s(self):
        # The library fills all members: the last one is a word, not the end of a shorter structure.
        for option in tarn_memory.options().values():
            self.assertIn(option.source, ("default", "environment", "program"))
            self.assertTrue(option.meaning)
        self.assertEqual(ctypes.sizeof(tarn_memory._Option), 6 * ctypes.sizeof(ctypes.c_void_p))


class WithoutTarn(unittest.TestCase):
    def run_without(self, code):
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)

    def test_says_what_to_do(self):
        for call in ("stats()", "trim()", "options()", "set_option('decay_ms', 1)"):
            result = self.run_without(
                f"import tarn_memory\nassert not tarn_memory.is_loaded()\n"
                f"try: tarn_memory.{call}\n"
                f"except tarn_memory.NotLoadedError as error: print(error)")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("start it by 'tarn run", result.stdout)


if __name__ == "__main__":
    unittest.main()
