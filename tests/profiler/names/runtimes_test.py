#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether the sites of programs that an interpreter or a compiler at run time executes have the names of their own functions.

    runtimes_test.py --tarn TARN --recorder LIBRARY --profile-dump BIN --compiler CXX [TEST ...]
"""
import json
import os
import shutil
import subprocess
import time
import unittest

import names_test
from names_test import HERE, Base, pythons


def require(*programs):
    return unittest.skipUnless(all(shutil.which(name) for name in programs), "no " + " or no ".join(programs))


class Runtime(Base):
    BYTES = 100000  # of a block, and up to a hundred more

    def sites(self, *words, **more):
        """(place, path of functions, blocks of a row's size) of each site that has some."""
        self.known = self.profile(*words, **more)
        return self.sites_with_rows()

    def sites_with_rows(self):
        found = []
        for site in self.known["sites"]:
            count = sum(count for size, count, exact in site["sizes"] if exact and 0 <= size - self.BYTES < 200)
            if count:
                found.append((site["label"], site["frames"], count))
        self.assertTrue(found)
        return found

    def shown(self):
        """(function, file, line) of the places that tarn show lists."""
        text = self.run_checked(names_test.settings.tarn, "show", "--json", "-n", "0", self.path("x.prof")).stdout
        return {(row["function"], os.path.basename(row["file"]), row["line"]) for row in json.loads(text)["sites"]}

    def refused(self):
        return " ".join(self.known["meta"]["refused"])

    def line_of(self, script, text):
        with open(os.path.join(HERE, script), encoding="utf-8") as file:
            return next(number for number, line in enumerate(file, 1) if text in line)


@require("node")
class Node(Runtime):
    SCRIPT = os.path.join(HERE, "rows.js")
    OPTIONS = ("--perf-basic-prof", "--interpreted-frames-native-stack")

    def require_script(self, sites, rows=100):
        names = [names for _, names, count in sites if "makeRow" in names and count >= 1]
        self.assertTrue(names, sites[:3])
        self.assertTrue(any(path[path.index("makeRow") + 1:path.index("makeRow") + 2] == ["makeRows"] for path in names), names[:3])
        places = self.shown()
        expected = ("makeRow", "rows.js", self.line_of("rows.js", "function makeRow("))
        self.assertIn(expected, places)

    def test_with_a_map(self):
        # Its file is in the folder that the compiler chooses.
        self.addCleanup(self.remove_maps, time.time())
        self.require_script(self.sites("node", *self.OPTIONS, self.SCRIPT, "300", cwd=self.folder))
        self.assertNotIn("perf-basic-prof", self.refused())

    def test_without_a_map_the_way_to_one_is_said(self):
        self.sites("node", self.SCRIPT, "300")
        self.assertIn("node --perf-basic-prof", self.refused())

    def test_attached(self):
        self.addCleanup(self.remove_maps, time.time())
        with subprocess.Popen(["node", *self.OPTIONS, self.SCRIPT, "90000"], stdout=subprocess.DEVNULL,
                              cwd=self.folder) as node:
            try:
                time.sleep(0.5)
                self.run_checked(names_test.settings.tarn, "attach", "--for", "2", "-o", self.path("x.prof"), str(node.pid))
            finally:
                node.kill()
        self.known = json.loads(self.run_checked(names_test.settings.profile_dump, self.path("x.prof")).stdout)
        self.require_script(self.sites_with_rows())

    def remove_maps(self, since):
        for name in os.listdir("/tmp"):
            path = os.path.join("/tmp", name)
            if name.startswith("perf-") and name.endswith(".map") and os.stat(path).st_mtime >= since - 1:
                os.unlink(path)


@require("java", "javac")
class Java(Runtime):
    OPTIONS = ("-Xcomp", "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,Rows::*", "-XX:CompileCommand=dontinline,Rows::*",
               "-XX:+PreserveFramePointer")

    def compile_rows(self):
        self.run_checked("javac", "-d", self.folder, os.path.join(HERE, "Rows.java"))

    def test_with_a_map(self):
        self.compile_rows()
        self.known = self.profile("java", *self.OPTIONS, "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-cp", self.folder, "Rows")
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        path = f"/tmp/perf-{self.known['meta']['pid']}.map"
        sites = self.sites_with_rows()
        self.assertTrue(any("void Rows.makeRow(int)" in names for _, names, _ in sites), sites)
        self.assertTrue(any("Rows.makeRow" in place[0] for place in self.shown()), self.shown())

    def test_without_a_map_the_way_to_one_is_said(self):
        self.compile_rows()
        self.known = self.profile("java", *self.OPTIONS, "-cp", self.folder, "Rows")
        self.assertIn("-XX:+DumpPerfMapAtExit", self.refused())


class PythonExtensions(Runtime):
    """What a library that Python calls allocates is the Python line's."""

    def places(self, script, module):
        found = [python for python in pythons()
                 if subprocess.run([python, "-c", "import " + module], capture_output=True, check=False).returncode == 0]
        if not found:
            self.skipTest("no Python from 3.11 to 3.13 with " + module)
        with open(self.path("app.py"), "w", encoding="utf-8") as file:
            file.write(script)
        self.profile(found[0], self.path("app.py"))
        return self.shown()

    def test_a_library_of_the_system(self):
        places = self.places("import zlib\nkept = []\ndef pack():\n    return zlib.compressobj(9)\n"
                             "for number in range(20):\n    kept.append(pack())\n", "zlib")
        self.assertIn(("pack", "app.py", 4), places)
        self.assertNotIn("deflateInit2_", {function for function, _, _ in places})

    def check_package(self, module, line):
        places = self.places(f"import {module}\nkept = []\ndef load():\n    return {line}\n"
                             "for number in range(20):\n    kept.append(load())\n", module)
        self.assertTrue(("load", "app.py", 4) in places, [place for place in places if place[1] == "app.py"])

    def test_numpy(self):
        self.check_package("numpy", "numpy.zeros(200000)")

    def test_lxml(self):
        self.check_package("lxml.etree", "lxml.etree.fromstring('<a>' + '<b/>' * 9000 + '</a>')")


if __name__ == "__main__":
    names_test.main(module="__main__")
