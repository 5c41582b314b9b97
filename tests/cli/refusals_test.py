# SPDX-License-Identifier: MIT
"""End-to-end: programs and libraries that `tarn run` must refuse, and how it says so, beside those of mistakes.py."""
import json
import os
import shutil

from harness import Base, settings, tarn


class refusals(Base):
    def test_program_not_found(self):
        self.assert_refused(tarn("run", "--", "no-such-program-xyzzy"), 127, "not found")

    def test_a_folder_or_a_script_of_a_static_program(self):
        for folder in (self.folder, ".", ".."):
            self.assert_refused(tarn("run", "--", folder), 126, f"tarn: {folder} is a directory")
        program = self.compile("static", "int main() { return 0; }", "-static")
        self.assert_refused(tarn("run", "--", self.write("script", f"#!{program}\n")), 125, "statically linked")

    def test_file_capabilities(self):
        setcap = shutil.which("setcap", path="/usr/sbin:/sbin:/usr/bin")
        if os.getuid() != 0 or not setcap:
            self.skipTest("needs root and setcap")
        program = self.path("capable")
        shutil.copy("/bin/true", program)
        set_them = [setcap, "cap_net_raw+ep", program]
        if self.execute(*set_them).returncode != 0:
            self.skipTest("this file system keeps no capabilities")
        os.chmod(self.folder, 0o755)
        # File capabilities put other users' programs into secure mode, but not root's.
        self.assertEqual(tarn("run", "--", program).returncode, 0)
        copies = {name: self.path(name) for name in ("tarn", "lib.so")}
        shutil.copy(settings.tarn, copies["tarn"])
        shutil.copy(settings.library, copies["lib.so"])
        result = self.execute(copies["tarn"], "run", "--", program, user=65534, group=65534, extra_groups=[],
                              env={"TARN_LIBRARY": copies["lib.so"]})
        self.assert_refused(result, 125, "file capabilities")

    def test_program_with_a_sanitizer(self):
        for sanitizer in ("thread", "leak", "address"):
            program = self.compile(sanitizer, "int main() { return 0; }", f"-fsanitize={sanitizer}")
            self.assert_refused(tarn("run", "--", program), 125, "sanitizer", program)
        fine = self.compile("undefined", "int main() { return 0; }", "-fsanitize=undefined")
        self.assertEqual(tarn("run", "--", fine).returncode, 0)

    def test_program_with_a_malloc_of_another_name(self):
        """Not refused, as it may use malloc, too: a Rust program has such a function for its global allocator."""
        source = """#include <cstdlib>
            extern "C" __attribute__((noinline)) void* mi_malloc(std::size_t bytes) { static char memory[4096]; return memory + bytes; }
            extern "C" void* my_malloc(std::size_t bytes) { static char memory[4096]; return memory + bytes; }
            void* volatile kept;
            int main() { kept = NAME(1); }"""
        flags = ("-O1", "-ffunction-sections", "-Wl,--gc-sections")
        own = self.compile("own", source.replace("NAME", "mi_malloc"), *flags)
        other = self.compile("other", source.replace("NAME", "my_malloc"), *flags)
        for words in (("run",), ("compare", "--only", "system,tarn", "-r", "1"), ("profile", "-o", self.path("own.prof"))):
            self.assertIn("own brings mi_malloc: ", tarn(*words, "--", own).stderr)
            self.assertNotIn("brings", tarn(*words, "--", other).stderr)
        self.assertEqual(tarn("run", "--", own).stdout, "")
        gone = self.path("stripped")
        self.execute("strip", "-o", gone, own, code=0)
        self.assertNotIn("brings", tarn("run", "--", gone).stderr)

    def test_bad_library(self):
        result = tarn("run", "--", "true", variables={"TARN_LIBRARY": self.write("text.so", "x")})
        self.assert_refused(result, 125, "not a shared library", "TARN_LIBRARY")

    def test_library_that_replaces_no_malloc(self):
        library = self.compile("libplain.so", "int plain() { return 1; }", "-shared", "-fPIC")
        result = tarn("run", "--", "true", variables={"TARN_LIBRARY": library})
        self.assert_refused(result, 125, "would take malloc from")

    def test_no_library_at_all(self):
        lonely = self.path("bin", "tarn")
        os.makedirs(os.path.dirname(lonely))
        shutil.copy(settings.tarn, lonely)
        result = self.execute(lonely, "run", "--", "true", env={"PATH": os.environ["PATH"]})
        self.assert_refused(result, 125, "cannot find libtarn.so.1", "TARN_LIBRARY")

    def test_finds_the_library_beside_itself(self):
        for folder in ("bin", "lib"):
            os.makedirs(self.path(folder))
        installed = self.path("bin", "tarn")
        shutil.copy(settings.tarn, installed)
        library = self.path("lib", "libtarn.so.1")
        shutil.copy(settings.library, library)
        result = self.execute(installed, "run", "--", "sh", "-c", "echo $LD_PRELOAD", env={"PATH": os.environ["PATH"]})
        self.assertEqual(result.stdout.strip(), os.path.realpath(library), result.stderr)

    def test_errors_as_json(self):
        result = tarn("run", "--json", "--", "/no/such")
        self.assertEqual(result.returncode, 127)
        error = json.loads(result.stderr)["error"]
        self.assertEqual(error["exit_code"], 127)
        self.assertIn("no such program", error["problem"])
