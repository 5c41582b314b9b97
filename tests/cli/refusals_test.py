# SPDX-License-Identifier: MIT
"""End-to-end: programs and libraries that `tarn run` must refuse, and how it says so."""
import json
import os
import shutil
import stat
import subprocess

from harness import Base, settings, tarn


class refusals(Base):
    def test_program_not_found(self):
        self.assert_refused(tarn("run", "--", "no-such-program-xyzzy"), 127, "not found")
        self.assert_refused(tarn("run", "--", "/no/such"), 127, "no such program")

    def test_not_executable(self):
        self.assert_refused(tarn("run", "--", self.write("data", "x", 0o644)), 126, "chmod +x")
        self.assert_refused(tarn("run", "--", self.folder), 126, "is a directory")
        self.assert_refused(tarn("run", "--", self.write("noshebang", "echo")), 126, "#!/bin/sh")

    def test_static_program(self):
        program = self.compile("static", "int main() { return 0; }", "-static")
        self.assert_refused(tarn("run", "--", program), 125, "statically linked", "libtarn.a")
        script = self.write("script", f"#!{program}\n")
        self.assert_refused(tarn("run", "--", script), 125, "statically linked")

    def test_musl_program(self):
        program = self.compile("musl", "int main() { return 0; }",
                               "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1")
        self.assert_refused(tarn("run", "--", program), 125, "musl")

    def test_foreign_architecture(self):
        program = self.compile("foreign", "int main() { return 0; }")
        with open(program, "r+b") as file:
            file.seek(18)
            file.write(b"\xf3\x00")
        self.assert_refused(tarn("run", "--", program), 125, "RISC-V")

    def test_setuid_program(self):
        if os.getuid() != 0:
            self.skipTest("only root can make a setuid program of another user")
        program = os.path.join(self.folder, "setuid")
        shutil.copy("/bin/true", program)
        os.chown(program, 65534, 65534)
        os.chmod(program, stat.S_ISUID | 0o755)
        self.assert_refused(tarn("run", "--", program), 125, "setuid")

    def test_file_capabilities(self):
        setcap = shutil.which("setcap", path="/usr/sbin:/sbin:/usr/bin")
        if os.getuid() != 0 or not setcap:
            self.skipTest("needs root and setcap")
        program = os.path.join(self.folder, "capable")
        shutil.copy("/bin/true", program)
        set_them = [setcap, "cap_net_raw+ep", program]
        if subprocess.run(set_them, capture_output=True, check=False).returncode != 0:
            self.skipTest("this file system keeps no capabilities")
        os.chmod(self.folder, 0o755)
        # File capabilities put other users' programs into secure mode, but not root's.
        self.assertEqual(tarn("run", "--", program).returncode, 0)
        copies = {name: os.path.join(self.folder, name) for name in ("tarn", "lib.so")}
        shutil.copy(settings.tarn, copies["tarn"])
        shutil.copy(settings.library, copies["lib.so"])
        result = subprocess.run([copies["tarn"], "run", "--", program], user=65534, group=65534,
                                extra_groups=[], env={"TARN_LIBRARY": copies["lib.so"]},
                                capture_output=True, text=True, check=False)
        self.assert_refused(result, 125, "file capabilities")

    def test_program_with_its_own_malloc(self):
        program = self.compile("own", '#include <cstddef>\n'
                               'extern "C" void* malloc(size_t) noexcept { return nullptr; }\n'
                               "int main() { return malloc(1) != nullptr; }", "-rdynamic")
        self.assert_refused(tarn("run", "--", program), 125, "its own malloc")

    def test_program_with_a_sanitizer(self):
        for sanitizer in ("thread", "leak", "address"):
            program = self.compile(sanitizer, "int main() { return 0; }", f"-fsanitize={sanitizer}")
            self.assert_refused(tarn("run", "--", program), 125, "sanitizer", program)
        fine = self.compile("undefined", "int main() { return 0; }", "-fsanitize=undefined")
        self.assertEqual(tarn("run", "--", fine).returncode, 0)

    def test_missing_library_of_the_program(self):
        library = self.compile("libgone.so", "int gone() { return 1; }", "-shared", "-fPIC")
        program = self.compile("needy", "int gone(); int main() { return gone(); }", "-x", "none", library)
        os.unlink(library)
        self.assert_refused(tarn("run", "--", program), 125, "libgone.so")

    def test_bad_library(self):
        text = self.write("text.so", "x")
        for library, phrase in (("/no/such.so", "cannot be read"), (text, "not a shared library")):
            result = tarn("run", "--", "true", variables={"TARN_LIBRARY": library})
            self.assert_refused(result, 125, phrase, "TARN_LIBRARY")

    def test_library_that_replaces_no_malloc(self):
        library = self.compile("libplain.so", "int plain() { return 1; }", "-shared", "-fPIC")
        result = tarn("run", "--", "true", variables={"TARN_LIBRARY": library})
        self.assert_refused(result, 125, "would take malloc from")

    def test_no_library_at_all(self):
        lonely = os.path.join(self.folder, "bin", "tarn")
        os.makedirs(os.path.dirname(lonely))
        shutil.copy(settings.tarn, lonely)
        result = subprocess.run([lonely, "run", "--", "true"], capture_output=True, text=True, check=False,
                                env={"PATH": os.environ["PATH"]})
        self.assert_refused(result, 125, "cannot find libtarn.so.1", "TARN_LIBRARY")

    def test_finds_the_library_beside_itself(self):
        for folder in ("bin", "lib"):
            os.makedirs(os.path.join(self.folder, folder))
        installed = os.path.join(self.folder, "bin", "tarn")
        shutil.copy(settings.tarn, installed)
        library = os.path.join(self.folder, "lib", "libtarn.so.1")
        shutil.copy(settings.library, library)
        result = subprocess.run([installed, "run", "--", "sh", "-c", "echo $LD_PRELOAD"], capture_output=True,
                                text=True, check=False, env={"PATH": os.environ["PATH"]})
        self.assertEqual(result.stdout.strip(), os.path.realpath(library), result.stderr)

    def test_errors_as_json(self):
        result = tarn("run", "--json", "--", "/no/such")
        self.assertEqual(result.returncode, 127)
        error = json.loads(result.stderr)["error"]
        self.assertEqual(error["exit_code"], 127)
        self.assertIn("no such program", error["problem"])
