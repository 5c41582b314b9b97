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

    def remove_map(self, pid):
        path = f"/tmp/perf-{pid}.map"  # in the folder that the compiler chooses
        if os.path.exists(path):
            os.unlink(path)

    def line_of(self, script, text):
        with open(os.path.join(HERE, script), encoding="utf-8") as file:
            return next(number for number, line in enumerate(file, 1) if text in line)


class Lua(Runtime):
    SCRIPT = os.path.join(HERE, "rows.lua")

    def function(self, text):
        return f"function <rows.lua:{self.line_of('rows.lua', text)}>"

    def require_lua(self):
        lua = shutil.which("lua5.4")
        if not lua:
            self.skipTest("no lua5.4")
        version = subprocess.run([lua, "-v"], capture_output=True, text=True, check=False).stdout
        if not "5.4.3" <= version.split()[1] <= "5.4.8":
            self.skipTest(version)
        return lua

    NAMES = ("row", "make", "main", "deep", "from_coroutine", "load_row", "main chunk")

    def paths(self, sites):
        return [[name for name in frames if name in self.NAMES or name.startswith("function <")] for _, frames, _ in sites]

    def test_functions_of_each_kind(self):
        paths = self.paths(self.sites(self.require_lua(), self.SCRIPT))
        for expected in (["row", "make", "main", "main chunk"], ["row", *["deep"] * 31, "main", "main chunk"],
                         ["row", self.function("function generate("), "from_coroutine", "main", "main chunk"],
                         ["row", self.function("function compare("), "main", "main chunk"], ["row", "load_row", "main", "main chunk"],
                         ["row", self.function("__index = function"), "main", "main chunk"], ["main chunk", "main", "main chunk"]):
            self.assertIn(expected, paths)
        self.assertNotIn([], paths)
        self.assertEqual(self.known["lost_events"], 0)
        self.assertIn(("row", "rows.lua", self.line_of("rows.lua", "string.rep(\"x\"")), self.shown())

    def test_sampled(self):
        self.require_lua()
        places = {place for place, _, _ in self.sites("lua5.4", self.SCRIPT, options=())}
        self.assertTrue(any("row" in place for place in places), places)

    def test_an_error_and_garbage_in_a_closed_state(self):
        lua = self.require_lua()
        script = ("for i = 1, 300 do local c = coroutine.create(function() coroutine.yield(string.rep('a', 100000 + i % 9)) "
                  "error('x') end) coroutine.resume(c) coroutine.resume(c) c = nil if i % 50 == 0 then collectgarbage() end end "
                  "local function down(n) return n == 0 and string.rep('z', 100001) or #down(n - 1) .. '' end "
                  "for i = 1, 5 do pcall(down, 15000) end print(pcall(down, 1e9))")
        self.sites(lua, "-e", script)

    def test_a_storm_of_coroutines_keeps_its_callers(self):
        script = ("local function row() return string.rep('x', 100000) end\n"
                  "local function nested(n) local text = n > 0 and coroutine.wrap(nested)(n - 1) or row() return text end\n"
                  "local function storm() for i = 1, 200 do coroutine.wrap(row)() nested(9) end end\n"
                  "storm()\n")
        with open(self.path("storm.lua"), "w", encoding="utf-8") as file:
            file.write(script)
        # A function that a coroutine begins with has no name.
        names = {"function <storm.lua:1>": "row", "function <storm.lua:2>": "nested"}
        known = {*names.values(), "storm", "main chunk"}
        for options in ((), ("--mode", "full")):
            with self.subTest(options):
                sites = self.sites(self.require_lua(), self.path("storm.lua"), options=options)
                paths = {" ".join(name for name in (names.get(each, each) for each in frames) if name in known)
                         for _, frames, _ in sites}
                self.assertEqual(paths, {"row storm main chunk", "row" + " nested" * 10 + " storm main chunk"})

    @require("lua5.3")
    def test_another_version_is_reported(self):
        self.known = self.profile("lua5.3", "-e", "for i = 1, 50 do x = string.rep('x', 100000) end")
        self.assertIn("Lua's functions: the interpreter is not of version 5.4.3", self.refused())


@require("node")
class Node(Runtime):
    SCRIPT = os.path.join(HERE, "rows.js")
    OPTIONS = ("--perf-basic-prof", "--interpreted-frames-native-stack")

    def require_script(self, sites):
        """One of both is the place of each block: the compiler may have put the one into the other."""
        lines = {name: self.line_of("rows.js", f"function {name}(") for name in ("makeRow", "makeRows")}
        places = {place for place, _, _ in sites}
        self.assertTrue(places and places <= lines.keys(), places)
        for place in places:
            self.assertIn((place, "rows.js", lines[place]), self.shown())

    def test_with_a_map(self):
        sites = self.sites("node", *self.OPTIONS, self.SCRIPT, "300", cwd=self.folder)
        self.remove_map(self.known["meta"]["pid"])
        self.require_script(sites)
        self.assertNotIn("perf-basic-prof", self.refused())

    def test_without_a_map_the_way_to_one_is_said(self):
        self.sites("node", self.SCRIPT, "300")
        self.assertIn("node --perf-basic-prof", self.refused())

    def test_attached(self):
        with subprocess.Popen(["node", *self.OPTIONS, self.SCRIPT, "90000"], stdout=subprocess.DEVNULL,
                              cwd=self.folder) as node:
            try:
                time.sleep(0.5)
                self.run_checked(names_test.settings.tarn, "attach", "--for", "2", "-o", self.path("x.prof"), str(node.pid))
            finally:
                node.kill()
                self.remove_map(node.pid)
        self.known = json.loads(self.run_checked(names_test.settings.profile_dump, self.path("x.prof")).stdout)
        self.require_script(self.sites_with_rows())


@require("java", "javac")
class Java(Runtime):
    OPTIONS = ("-Xcomp", "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,Rows::*", "-XX:CompileCommand=dontinline,Rows::*",
               "-XX:+PreserveFramePointer")

    def compile_rows(self):
        self.run_checked("javac", "-d", self.folder, os.path.join(HERE, "Rows.java"))

    def test_with_a_map(self):
        self.compile_rows()
        self.known = self.profile("java", *self.OPTIONS, "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-cp", self.folder, "Rows")
        self.remove_map(self.known["meta"]["pid"])
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
