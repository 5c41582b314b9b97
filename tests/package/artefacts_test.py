#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of packaging/: the clean systems of check_artefacts.py, what it finds of files that an artefact leaves behind, and what it
says of an artefact that was not made; what check_glibc.py refuses; and that the source archive is complete and the same each time."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))
import check_artefacts  # noqa: E402


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text=""):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class Remains(Folder):
    def found(self, change):
        self.write("etc/hosts", "one")
        self.write("usr/bin/ls", "program")
        before = check_artefacts.contents(self.folder)
        change()
        return list(check_artefacts.differences(before, check_artefacts.contents(self.folder)))

    def test_nothing(self):
        self.assertEqual(self.found(lambda: None), [])

    def test_a_file_and_its_folder(self):
        self.assertEqual(self.found(lambda: self.write("usr/share/doc/tarn/copyright")),
                         ["left behind: /usr/share", "left behind: /usr/share/doc", "left behind: /usr/share/doc/tarn",
                          "left behind: /usr/share/doc/tarn/copyright"])

    def test_a_dead_link(self):
        self.assertEqual(self.found(lambda: (self.folder / "usr/bin/tarn").symlink_to("/opt/nothing")),
                         ["left behind: /usr/bin/tarn"])

    def test_a_changed_setting(self):
        self.assertEqual(self.found(lambda: self.write("etc/hosts", "two")), ["changed: /etc/hosts"])

    def test_a_removed_file(self):
        self.assertEqual(self.found(lambda: (self.folder / "usr/bin/ls").unlink()), ["gone: /usr/bin/ls"])

    def test_logs_and_the_package_managers_records(self):
        self.assertEqual(self.found(lambda: [self.write(name) for name in (
            "var/log/dpkg.log", "var/cache/apt/pkgcache.bin", "var/lib/dpkg/info/x.list", "etc/ld.so.cache")]),
            [f"left behind: /{name}" for name in ("var", "var/cache", "var/lib", "var/lib/dpkg", "var/log")])


def may_mount():
    return shutil.which("unshare") and subprocess.run(["unshare", "--mount", "true"], check=False,
                                                      capture_output=True).returncode == 0


@unittest.skipUnless(may_mount(), "mounting needs root")
class CleanSystem(Folder):
    """debootstrap mounts /proc in the system that it makes, and leaves it there while another program reads it. A copy of
    such a system would be one of /proc, whose files have no end."""

    def unmount(self, place):
        self.addCleanup(subprocess.run, ["umount", place], check=False, stderr=subprocess.DEVNULL)

    def mounted(self):
        return [line for line in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
                if str(self.folder) in line]

    def test_a_mount_that_debootstrap_leaves_ends_with_it(self):
        self.write("bin/debootstrap", "#!/bin/sh\n"
                   "for word; do case $word in *.making) root=$word ;; esac; done\n"
                   "mkdir -p $root/proc $root/usr && mount -t tmpfs none $root/proc && : >$root/proc/file && : >$root/usr/file\n")
        (self.folder / "bin/debootstrap").chmod(0o755)
        self.unmount(self.folder / "roots/bookworm/proc")
        with mock.patch.dict(os.environ, {"PATH": f"{self.folder}/bin:{os.environ['PATH']}"}), \
                (self.folder / "log").open("w", encoding="utf-8") as log:
            root = check_artefacts.clean_root(self.folder / "roots", "bookworm", log)
        self.assertEqual(self.mounted(), [])
        self.assertTrue((root / "usr/file").exists() and (root / "proc").is_dir())
        self.assertFalse((root / "proc/file").exists())

    def test_a_copy_has_nothing_of_what_is_mounted_in_the_system(self):
        self.write("bookworm/usr/file")
        (self.folder / "bookworm/proc").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", self.folder / "bookworm/proc"], check=True)
        self.unmount(self.folder / "bookworm/proc")
        self.write("bookworm/proc/file")
        copy = check_artefacts.copy_of(self.folder / "bookworm")
        self.assertTrue((copy / "usr/file").exists())
        self.assertEqual(list((copy / "proc").iterdir()), [])


class NotMade(Folder):
    """`./dev release tar` makes the archive alone: the packages, which are not there, have not failed."""

    def test_try_artefact_says_that_there_is_nothing_to_install(self):
        for script in sorted((ROOT / "packaging").glob("*/try_artefact")):
            with self.subTest(script.parent.name):
                done = subprocess.run([script, "install", self.folder], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, check_artefacts.NOT_TRIED, done.stderr)
                self.assertRegex(done.stdout.splitlines()[-1], r"^no (lib)?tarn.* among the artefacts")

    def check(self, statuses):
        """A check whose actions end with these statuses, each after a line."""
        with (self.folder / "log").open("w", encoding="utf-8") as log:
            check = check_artefacts.Check("some", "bookworm", self.folder, log)

            def act(_root, action):
                log.write(f"line of {action}\n")
                return statuses[action]
            check.act = act
            (self.folder / "root").mkdir()
            check.run(self.folder / "root")
        return check

    def test_the_table_and_the_reason(self):
        check = self.check({"install": check_artefacts.NOT_TRIED})
        self.assertEqual(check.row(), ["some", "Debian 12", "not tried", "-", "-", "-", "-"])
        self.assertEqual(check.problems, ["not tried: line of install"])

    def test_a_failure_is_one(self):
        check = self.check({"install": 0, "try": 77, "remove": 0})
        self.assertEqual(check.row()[2:6], ["yes", "NO", "yes", "yes"])


class GlibcFloor(Folder):
    def check(self, floor):
        return subprocess.run([sys.executable, ROOT / "packaging/tar/check_glibc.py", floor, self.folder],
                              capture_output=True, text=True, check=False)

    def test_a_system_program(self):
        shutil.copy("/bin/ls", self.folder / "ls")
        self.assertIn("TOO NEW", self.check("2.1").stdout)
        self.assertEqual(self.check("2.1").returncode, 1)

    def test_a_foreign_library(self):
        shutil.copy(sys.executable, self.folder / "python")
        done = self.check("99.0")
        self.assertRegex(done.stdout, r"^python: needs glibc 2\.\d+  NEEDS .*lib")
        self.assertEqual(done.returncode, 1)

    def test_no_program_at_all(self):
        self.assertIn("has no program", self.check("2.31").stderr)


class SourceArchive(Folder):
    def make(self, out):
        out.mkdir()
        subprocess.run([ROOT / "packaging/source/make_artefact", out], check=True, capture_output=True)
        return next(out.iterdir())

    def test_complete_and_the_same_each_time(self):
        if not (ROOT / ".git").exists():
            self.skipTest("not a clone: git's list of files is missing")
        first, second = self.make(self.folder / "a"), self.make(self.folder / "b")
        self.assertEqual(first.read_bytes(), second.read_bytes())
        known = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True,
                               text=True).stdout.split("\0")
        with tarfile.open(first) as archive:
            inside = {name.partition("/")[2] for name in archive.getnames()}
        self.assertEqual({name for name in known if name and (ROOT / name).exists()} - inside, set())


class Convention(unittest.TestCase):
    def test_each_folder_makes_its_artefact(self):
        for folder in (ROOT / "packaging").iterdir():
            if folder.is_dir() and folder.name != "__pycache__":
                maker = folder / "make_artefact"
                self.assertTrue(maker.is_file() and maker.stat().st_mode & 0o111, f"{folder} has no executable make_artefact")


if __name__ == "__main__":
    unittest.main()
