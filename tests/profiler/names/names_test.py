#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether the sites of a profile have the right names: programs of known source are recorded, and their sites checked.

    names_test.py --tarn TARN --recorder LIBRARY --profile-dump BIN --compiler CXX [TEST ...]
"""
import argparse
import ctypes
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
settings = None


class Base(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tarn-names-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def environment(self, **more):
        variables = {**os.environ, "TARN_RECORDER": settings.recorder, **more}
        variables.pop("LD_PRELOAD", None)
        return variables

    def run_checked(self, *words, **more):
        more.setdefault("env", self.environment())
        result = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False, **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def compile(self, name, *flags, source="two_makers.cpp"):
        self.run_checked(settings.compiler, "-g", "-O1", "-fno-builtin", os.path.join(HERE, source), "-o",
                         self.path(name), *flags)
        return self.path(name)

    def profile(self, *words, options=("--mode", "full"), **more):
        """Records a program; returns the profile as profile_dump prints it."""
        self.run_checked(settings.tarn, "profile", "-o", self.path("x.prof"), *options, "--", *words, **more)
        return json.loads(self.run_checked(settings.profile_dump, self.path("x.prof")).stdout)


class Holes(Base):
    """Programs whose segments are not adjacent in memory, or whose first segment does not begin at its alignment."""

    def assert_named(self, *flags):
        known = self.profile(self.compile("program", *flags))
        counts = {}
        for site in known["sites"]:
            name = site["label"].split("(anonymous namespace)::")[-1].split("(")[0]
            counts[name] = counts.get(name, 0) + site["figures"]["allocations"]
        self.assertEqual((counts.get("first_maker"), counts.get("second_maker")), (20, 20), counts)

    def test_large_pages(self):
        self.assert_named("-Wl,-z,max-page-size=0x200000", "-Wl,-z,separate-code")

    def test_fixed_place(self):
        self.assert_named("-no-pie", "-Wl,-z,max-page-size=0x200000", "-Wl,-z,separate-code")

    def test_stub_of_malloc(self):
        self.assert_named("-no-pie", "-fno-pie", "-DTAKES_ADDRESS")

    def test_code_far_from_the_rest(self):
        self.assert_named("-no-pie", "-Wl,--section-start=.text=0x10400000")

    def test_first_segment_begins_within_a_page(self):
        self.assert_named("-no-pie", "-Wl,-z,max-page-size=0x200000", "-Wl,-Ttext-segment=0x3ff000")


class Libraries(Base):
    """Libraries have the names of the code that was loaded, wherever, however and how often they were loaded."""

    BYTES = 100000  # of a block in two_libraries.cpp

    def library(self, maker, name=None):
        name = name or maker + ".so"
        return self.compile(name, "-shared", "-fPIC", "-Wl,--build-id=sha1", "-DMAKER=" + maker,
                            source="two_libraries.cpp")

    def blocks(self, *words, **more):
        """The program loads libraries as `words` say; label of a site -> number of a library's blocks. Sets self.known."""
        if not os.path.exists(self.path("program")):
            self.compile("program", "-ldl", source="two_libraries.cpp")
        self.known = self.profile(self.path("program"), *words, **more)
        counts = {}
        for site in self.known["sites"]:
            count = sum(count for size, count, exact in site["sizes"] if exact and size == self.BYTES)
            if count:
                counts[site["label"]] = counts.get(site["label"], 0) + count
        return counts

    def test_libraries_at_one_address_one_after_another(self):
        libraries = [self.library("first"), self.library("other")]
        self.assertEqual(self.blocks(*libraries, *libraries), {"first": 2, "other": 2})

    def test_each_thread_has_the_names_of_its_time(self):
        libraries = [self.library("first"), self.library("other")]
        self.assertEqual(self.blocks("--threads", *libraries, *libraries), {"first": 2, "other": 2})

    def test_relative_paths(self):
        os.makedirs(self.path("lib"))
        self.library("first", "lib/first.so")
        self.library("other", "lib/other.so")
        self.assertEqual(self.blocks("lib/first.so", cwd=self.folder), {"first": 1})
        self.assertIn(self.path("lib/first.so"), {module["path"] for module in self.known["modules"]})
        away = self.blocks("lib/first.so", "--to", "/", cwd=self.folder)
        self.assertEqual(away, {"first": 1}, "the program is in another folder by then")
        found = self.environment(LD_LIBRARY_PATH="lib")
        self.assertEqual(self.blocks("other.so", cwd=self.folder, env=found), {"other": 1})

    def test_needed_by_a_relative_path(self):
        os.makedirs(self.path("lib"))
        self.library("first", "lib/first.so")
        self.run_checked(settings.compiler, "-g", "-DNEEDS", os.path.join(HERE, "two_libraries.cpp"), "-o", "needs",
                         "lib/first.so", cwd=self.folder)
        os.rename(self.path("needs"), self.path("program"))
        self.assertEqual(self.blocks(cwd=self.folder), {"first": 1})

    @unittest.skipUnless(os.geteuid() == 0, "only root may call chroot")
    def test_below_another_root(self):
        self.library("first")
        self.assertEqual(self.blocks("--root", self.folder, "/first.so"), {"first": 1})

    def test_replaced_file(self):
        plug = self.library("first", "plug.so")
        counts = self.blocks(plug, "--move", self.library("other"), plug, plug)
        self.assertEqual(counts.pop("other"), 1)
        self.assertEqual(list(counts.values()), [1], "those of the first file have no name, and not that of the second")
        self.assertIn("plug.so: the file has been replaced", " ".join(self.known["meta"]["symbol_notes"]))

    def test_deleted_file(self):
        plug = self.library("first")
        self.assertNotIn("first", self.blocks(plug, "--move", plug, self.path("away")))
        self.assertIn("first.so: the file does not exist any more", " ".join(self.known["meta"]["symbol_notes"]))

    def test_many_libraries(self):
        plug = self.library("first")
        self.run_checked("strip", "--strip-debug", plug)
        copies = [shutil.copy(plug, self.path(f"copy{number}.so")) for number in range(600)]
        self.assertEqual(self.blocks("--keep", *copies), {"first": 600})


class OwnCode(Base):
    """The place of a site is in the program's own code, not in that of libraries, nor in its start."""

    def places(self, *words):
        """(function, file, line) of the sites' places -> number of allocations."""
        self.profile(*words)
        text = self.run_checked(settings.tarn, "show", "--json", "-n", "0", self.path("x.prof")).stdout
        counts = {}
        for row in json.loads(text)["sites"]:
            place = (row["function"], os.path.basename(row["file"]), row["line"])
            counts[place] = counts.get(place, 0) + row["allocations"]
        return counts

    def test_line_of_a_header_in_a_function_of_the_program(self):
        source = self.path("lines.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <cstdlib>\n"
                       "void* volatile kept;\n"
                       "int main() {\n"
                       "  kept = nullptr;\n"
                       "#line 137 \"/usr/include/c++/12/bits/new_allocator.h\"\n"
                       "  kept = std::malloc(100000);\n"
                       "#line 7 \"" + source + "\"\n"
                       "  std::free(kept);\n"
                       "}\n")
        self.run_checked(settings.compiler, "-g", "-O1", "-fno-builtin", source, "-o", self.path("program"))
        self.assertEqual(self.places(self.path("program")).get(("main", "lines.cpp", 4)), 1)

    def test_what_libc_allocates_is_the_callers(self):
        source = self.path("lines.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <stdio.h>\n"
                       "int main(int count, char** words) {\n"
                       "  FILE* file = fopen(words[0], \"r\");\n"
                       "  return getc(file) == EOF;\n"
                       "}\n")
        self.run_checked(settings.compiler, "-x", "c", "-g", "-O1", source, "-o", self.path("program"))
        places = self.places(self.path("program"))
        self.assertEqual((places.get(("main", "lines.c", 3)), places.get(("main", "lines.c", 4))), (1, 1), places)

    RUST = """
pub struct Row { pub name: String }
#[inline(never)] pub fn load_rows(count: usize) -> Vec<Row> {
  (0..count).map(|number| Row { name: format!("row {number} with a name that is long enough") }).collect()
}
#[inline(never)] fn fill(text: &str) -> Vec<u8> { let mut all = Vec::new(); for b in text.bytes() { all.push(b) } all }
fn main() { let rows = load_rows(1000); println!("{} {}", rows.len(), fill(&rows[7].name).len()); }
"""

    def check_rust(self, *options, lines=True):
        if not shutil.which("rustc"):
            self.skipTest("no rustc")
        with open(self.path("rows.rs"), "w", encoding="utf-8") as file:
            file.write(self.RUST)
        self.run_checked("rustc", "-O", "-o", self.path("program"), *options, self.path("rows.rs"),
                         env=self.environment(RUSTC_BOOTSTRAP="1"))
        places = self.places(self.path("program"))
        counts = {}
        for (function, file, _), allocations in places.items():
            name = function.replace("::{closure#0}", "").replace("::{{closure}}", "")
            if lines:
                self.assertIn(file, ("rows.rs", ""), places)
            counts[name] = counts.get(name, 0) + allocations
        if not any(name.startswith("rows::") for name in counts) and any("4rows" in name for name in counts):
            self.skipTest("tarn was built without libiberty")
        self.assertGreaterEqual(counts.get("rows::load_rows", 0), 1001, places)
        self.assertGreaterEqual(counts.get("rows::fill", 0), 3, places)

    def test_rust(self):
        self.check_rust("-g", "-C", "symbol-mangling-version=v0")

    def test_older_names_of_rust(self):
        self.check_rust("-g", "-Z", "unstable-options", "-C", "symbol-mangling-version=legacy")

    def test_rust_without_lines(self):
        self.check_rust("-C", "strip=debuginfo", "-C", "symbol-mangling-version=v0", lines=False)


class SourceLines(Base):
    """The report's page has the source lines around a site, if the source file exists."""

    def page(self, *options):
        self.run_checked(settings.tarn, "report", *options, "-o", self.path("x.html"), self.path("x.prof"))
        with open(self.path("x.html"), encoding="utf-8") as file:
            return json.loads(file.read().split('id="data">', 1)[1].split("</script>", 1)[0])

    def test_report_holds_them(self):
        source = self.path("maker.c")
        lines = ["#include <stdlib.h>", "int main() { // </script><script>alert(1)</script>",
                 "  char* volatile block = malloc(100000);", "  block[5] = 1;", "  free(block);", "  return 0;", "}"]
        with open(source, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        self.run_checked(settings.compiler, "-x", "c", "-g", "-O0", source, "-o", self.path("program"))
        self.profile(self.path("program"))
        data = self.page()
        found = [lines for frame, lines in data["sources"].items() if data["frames"]["line"][int(frame)] == 3]
        self.assertEqual(found, [[1, *lines]])
        self.assertNotIn("sources", self.page("--no-source"))


class DebugServer(http.server.ThreadingHTTPServer):
    """Serves the debug information of one program over HTTP, as debuginfod does; `asked` lists the requested paths."""

    def __init__(self, build_id, file):
        served = {f"/buildid/{build_id}/debuginfo": file}
        self.asked = []
        asked = self.asked

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                if self.path not in served:
                    self.send_error(404)
                    return
                with open(served[self.path], "rb") as source:
                    content = source.read()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


@unittest.skipUnless(shutil.which("objcopy") and shutil.which("strip"), "no binutils")
class DebugFiles(Base):
    """Debug information of a stripped program, in each of the places where it may be."""

    def strip(self):
        """Paths of a stripped program and of its debug information, and the build-id."""
        program = self.compile("program", "-Wl,--build-id=sha1")
        debug = self.path("program.debug")
        self.run_checked("objcopy", "--only-keep-debug", program, debug)
        self.run_checked("strip", "--strip-all", "--remove-section=.comment", program)
        notes = self.run_checked("readelf", "-n", program).stdout
        return program, debug, notes.split("Build ID: ")[1].split()[0]

    def labels(self, program, *options, **variables):
        cache = {"DEBUGINFOD_CACHE_PATH": self.path("cache"), "DEBUGINFOD_URLS": "", **variables}
        known = self.profile(program, options=("--mode", "full", *options), env=self.environment(**cache))
        self.notes = " ".join(known["meta"]["symbol_notes"])
        return {site["label"].split("::")[-1].split("(")[0] for site in known["sites"]}

    def require_libdebuginfod(self):
        try:
            ctypes.CDLL("libdebuginfod.so.1")
        except OSError:
            self.skipTest("no libdebuginfod")

    def test_without_debug_information_there_are_no_names(self):
        program, _, _ = self.strip()
        self.assertNotIn("first_maker", self.labels(program))
        shown = self.run_checked(settings.tarn, "show", self.path("x.prof")).stdout
        self.assertRegex(shown, r"\?\? \(program\)\n +without names: \S*/program is stripped.*DEBUGINFOD_URLS.*--debug-path")
        summary = self.run_checked(settings.tarn, "profile", "-o", self.path("y.prof"), "--mode", "full", "--", program,
                                   env=self.environment(DEBUGINFOD_URLS="")).stderr
        self.assertRegex(summary, r"\?\? \(program\)\n +without names: \S*/program is stripped")

    def test_folder_by_build_id(self):
        program, debug, build_id = self.strip()
        folder = self.path(f"debug/.build-id/{build_id[:2]}")
        os.makedirs(folder)
        shutil.move(debug, os.path.join(folder, build_id[2:] + ".debug"))
        self.assertIn("first_maker", self.labels(program, "--debug-path", self.path("debug")))

    def test_link_to_a_file_beside_it(self):
        program, debug, _ = self.strip()
        self.run_checked("objcopy", "--add-gnu-debuglink=" + debug, program)
        self.assertIn("first_maker", self.labels(program))
        os.makedirs(self.path("elsewhere"))
        shutil.move(debug, self.path("elsewhere"))
        self.assertNotIn("first_maker", self.labels(program))
        self.assertIn("first_maker", self.labels(program, "--debug-path", self.path("elsewhere")))

    def test_server(self):
        self.require_libdebuginfod()
        program, debug, build_id = self.strip()
        with DebugServer(build_id, debug) as server:
            self.assertIn("first_maker", self.labels(program, DEBUGINFOD_URLS=server.url()))
            self.assertIn(f"/buildid/{build_id}/debuginfo", server.asked)
            server.asked.clear()
            # The second time the file comes from the cache.
            self.assertIn("first_maker", self.labels(program, DEBUGINFOD_URLS=server.url()))
            self.assertNotIn(f"/buildid/{build_id}/debuginfo", server.asked)
            server.shutdown()

    def test_without_a_server_nothing_is_requested(self):
        self.require_libdebuginfod()
        program, _, build_id = self.strip()
        self.labels(program)
        self.assertFalse(os.path.exists(self.path("cache")))

    def test_server_that_cannot_be_reached(self):
        self.require_libdebuginfod()
        program, _, _ = self.strip()
        self.assertNotIn("first_maker", self.labels(program, DEBUGINFOD_URLS="http://127.0.0.1:1"))

    def test_server_that_does_not_answer_is_given_up(self):
        self.require_libdebuginfod()
        program, _, _ = self.strip()
        with socket.create_server(("127.0.0.1", 0)) as silent:
            begin = time.monotonic()
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            self.assertNotIn("first_maker", self.labels(program, DEBUGINFOD_URLS=url, DEBUGINFOD_TIMEOUT="2"))
            self.assertLess(time.monotonic() - begin, 30)
        self.assertIn("debuginfod gave nothing for 2 s", self.notes)
        self.assertEqual(self.notes.count("debuginfod gave nothing"), 1)


def pythons():
    """The installed Python interpreters from 3.11 to 3.13, by the paths of the programs themselves, not of wrappers."""
    found = {}
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        for folder in ["/usr/bin", *os.environ["PATH"].split(os.pathsep)]:
            program = os.path.join(folder, name)
            if not os.access(program, os.X_OK):
                continue
            result = subprocess.run([program, "-c", "import sys; print(*sys.version_info[:2], sys.executable)"],
                                    capture_output=True, text=True, check=False)
            words = result.stdout.split()
            if result.returncode == 0 and ("3", "11") <= (words[0], words[1]) <= ("3", "13"):
                found.setdefault((words[1], os.path.realpath(words[2])), words[2])
    return [found[key] for key in sorted(found)]


class Python(Base):
    """A Python program's sites are named by its own lines, whatever native code is between them and malloc."""

    SCRIPT = os.path.join(HERE, "rows.py")
    BYTES = 5000

    def line_of(self, text):
        with open(self.SCRIPT, encoding="utf-8") as file:
            return next(number for number, line in enumerate(file, 1) if text in line)

    def blocks(self, known):
        """Path of Python functions -> number of blocks of a row's size that it has allocated."""
        counts = {}
        for site in known["sites"]:
            rows = sum(count for size, count, exact in site["sizes"] if exact and 0 <= size - self.BYTES < 100)
            path = tuple(name for name in site["frames"] if not name.startswith(("?", "_", "Py")))
            counts[path] = counts.get(path, 0) + rows
        return counts

    def assert_path(self, counts, *inner, count=20):
        found = sum(value for path, value in counts.items() if path[:len(inner)] == inner)
        self.assertEqual(found, count, (inner, counts))

    def check_version(self, python):
        known = self.profile(python, self.SCRIPT)
        counts = {}
        # Drops the interpreter's own functions, which have names if it is not stripped.
        mine = ("main", "<module>", "by_generator", "Table.sort_key", "Table.__init__", "in_native_callback", "deep")
        for path, value in self.blocks(known).items():
            short = tuple(name for name in path if name in mine or name.startswith("main.<locals>"))
            counts[short] = counts.get(short, 0) + value
        self.assert_path(counts, "by_generator", "main", "<module>")
        self.assert_path(counts, "Table.sort_key", "in_native_callback", "main", "<module>")
        self.assert_path(counts, "Table.__init__", "in_native_callback", "main", "<module>", count=1)
        self.assert_path(counts, *["deep"] * 31, "main.<locals>.<listcomp>" if self.minor(python) == 11 else "main")
        self.assertEqual(known["lost_events"], 0)
        rows = json.loads(self.run_checked(settings.tarn, "show", "--json", "-n", "0", self.path("x.prof")).stdout)["sites"]
        lines = {(os.path.basename(row["file"]), row["line"]) for row in rows}
        for text in ("return [bytearray(BYTES) for", "yield bytearray", "self.rows = bytearray(BYTES)", "json.loads(json",
                     "if levels else"):
            self.assertIn(("rows.py", self.line_of(text)), lines)

    def minor(self, python):
        return int(self.run_checked(python, "-c", "import sys; print(sys.version_info[1])").stdout)

    def test_every_version_that_is_here(self):
        found = pythons()
        if not found:
            self.skipTest("no Python from 3.11 to 3.13")
        for python in found:
            with self.subTest(python):
                self.check_version(python)

    def test_small_child_is_added_to_its_parent_at_the_same_lines(self):
        found = pythons()
        if not found:
            self.skipTest("no Python from 3.11 to 3.13")
        plain = self.blocks(self.profile(found[0], self.SCRIPT))
        forked = self.blocks(self.profile(found[0], self.SCRIPT, "fork"))
        makers = [sum(count for path, count in counts.items() if "make" in path) for counts in (plain, forked)]
        self.assertEqual(makers[1] - makers[0], 20)


def main(module="__main__"):
    global settings
    parser = argparse.ArgumentParser()
    for word in ("--tarn", "--recorder", "--profile-dump", "--compiler"):
        parser.add_argument(word, required=True)
    parser.add_argument("tests", nargs="*")
    settings = parser.parse_args()
    unittest.main(module, argv=[sys.argv[0], *settings.tests])


if __name__ == "__main__":
    main()
