#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of packaging/: the clean systems of check_artefacts.py, what it finds of files that an artefact leaves behind, and what it
says of an artefact that was not made; what check_glibc.py refuses; that the source archive is complete and the same each time; and
what a release states of its artefacts."""

import hashlib
import json
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

    def check(self, statuses, older=None):
        """A check whose actions end with these statuses, each after a line."""
        with (self.folder / "log").open("w", encoding="utf-8") as log:
            check = check_artefacts.Check("some", "bookworm", self.folder, log, older)
            self.acted = []

            def act(_root, action, artefacts):
                log.write(f"line of {action}\n")
                self.acted.append((action, artefacts))
                return statuses.get(action, 0)
            check.act = act
            (self.folder / "root").mkdir()
            check.run(self.folder / "root")
        return check

    def test_the_table_and_the_reason(self):
        check = self.check({"install": check_artefacts.NOT_TRIED})
        self.assertEqual(check.row(), ["some", "Debian 12", "not tried", "-", "-", "-", "-", "-"])
        self.assertEqual(check.problems, ["not tried: line of install"])

    def test_a_failure_is_one(self):
        check = self.check({"install": 0, "try": 77, "remove": 0})
        self.assertEqual(check.row()[2:7], ["yes", "-", "NO", "yes", "yes"])

    def test_an_older_release_comes_first(self):
        check = self.check({}, older=pathlib.Path("/older"))
        self.assertEqual(self.acted, [("install", pathlib.Path("/older")), ("try", pathlib.Path("/older")), ("upgrade", self.folder),
                                      ("try", self.folder), ("remove", self.folder)])
        self.assertEqual(check.row()[2:7], ["yes"] * 5)

    def test_an_upgrade_that_fails_ends_it(self):
        check = self.check({"upgrade": 1}, older=pathlib.Path("/older"))
        self.assertEqual(check.row()[2:7], ["yes", "NO", "yes", "NO", "NO"])


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
    def make(self, out, tree=ROOT):
        out.mkdir()
        subprocess.run([tree / "packaging/source/make_artefact", out], check=True, capture_output=True)
        return next(out.iterdir())

    def test_complete_and_the_same_each_time(self):
        if not (ROOT / ".git").exists():
            self.skipTest("not a clone: git's list of files is missing")
        first = self.make(self.folder / "a")
        # Another clone, later, of somebody whose files the group may write.
        clone = self.folder / "a longer name"
        subprocess.run(f"umask 002; git clone -q '{ROOT}' '{clone}' && git -C '{ROOT}' diff --binary HEAD | git -C '{clone}' apply -q "
                       "--allow-empty", shell=True, check=True)
        second = self.make(self.folder / "b", clone)
        with tarfile.open(second) as archive:
            self.assertEqual({member.mode for member in archive if member.isfile()}, {0o644, 0o755})
        if not subprocess.run(["git", "ls-files", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True).stdout:
            self.assertEqual(first.read_bytes(), second.read_bytes())
        known = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True,
                               text=True).stdout.split("\0")
        with tarfile.open(first) as archive:
            inside = {name.partition("/")[2] for name in archive.getnames()}
        self.assertEqual({name for name in known if name and (ROOT / name).exists()} - inside, set())


class Statements(Folder):
    """What a release states, of packages and an archive that hold nothing."""

    def setUp(self):
        super().setUp()
        for tool in ("dpkg-deb", "dpkg-scanpackages"):
            if not shutil.which(tool):
                self.skipTest(f"{tool} is missing")
        for package, needed in (("tarn", "libtarn1 (= 0.1.0-1), libc6 (>= 2.36), libdw1 (>= 0.188)"), ("libtarn1", "libc6 (>= 2.36)")):
            self.write(f"{package}/DEBIAN/control", f"Package: {package}\nVersion: 0.1.0-1\nArchitecture: amd64\nDepends: {needed}\n"
                       "Maintainer: nobody <nobody@tarn.example>\nDescription: nothing\n")
            (self.folder / "made/apt/pool").mkdir(parents=True, exist_ok=True)
            for target in ("made", "made/apt/pool"):
                subprocess.run(["dpkg-deb", "--build", self.folder / package, self.folder / target], check=True, capture_output=True)
        self.made = self.folder / "made"
        self.write("made/tarn-0.1.0-linux-x86_64.tar.gz", "archive")
        self.write("made/SHA256SUMS", "sums")

    def state(self, kind, *more):
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        done = subprocess.run([sys.executable, ROOT / "packaging/statements.py", kind, self.made, "0.1.0", *more], env=environment,
                              capture_output=True, text=True, check=False)
        if "dpkg-query: no packages found" in done.stderr:
            self.skipTest(done.stderr.splitlines()[-1])
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.made / f"tarn-0.1.0.{'spdx' if kind == 'sbom' else 'intoto'}.json").read_text())

    def test_others_parts(self):
        made = self.state("sbom")
        of = lambda artefact: {(one["relationshipType"], one["relatedSpdxElement"].removeprefix("SPDXRef-"))
                               for one in made["relationships"] if one["spdxElementId"] == f"SPDXRef-{artefact}"}
        self.assertTrue({("STATIC_LINK", "elfutils"), ("STATIC_LINK", "zlib"), ("CONTAINS", "uPlot")}
                        <= of("tarn-0.1.0-linux-x86-64.tar.gz"))
        command = of("tarn-0.1.0-1-amd64.deb")
        self.assertTrue({("STATIC_LINK", "fmt"), ("DEPENDS_ON", "libdw1"), ("DEPENDS_ON", "libtarn1")} <= command)
        self.assertNotIn(("STATIC_LINK", "elfutils"), command)
        self.assertEqual(of("libtarn1-0.1.0-1-amd64.deb"), {("STATIC_LINK", "valgrind"), ("DEPENDS_ON", "libc6")})
        self.assertEqual(made["creationInfo"]["created"], "2023-11-14T22:13:20Z")
        known = {one["SPDXID"] for one in made["packages"]} | {"SPDXRef-DOCUMENT"}
        for one in made["relationships"]:
            self.assertLessEqual({one["spdxElementId"], one["relatedSpdxElement"]}, known)

    def test_where_it_comes_from(self):
        made = self.state("provenance", "0123abcd", "FINGERPRINT", "1700000000")
        self.assertEqual([one["name"] for one in made["subject"]],
                         ["libtarn1_0.1.0-1_amd64.deb", "tarn-0.1.0-linux-x86_64.tar.gz", "tarn_0.1.0-1_amd64.deb"])
        self.assertEqual(made["subject"][1]["digest"], {"sha256": hashlib.sha256(b"archive").hexdigest()})
        self.assertEqual(made["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"], {"gitCommit": "0123abcd"})
        self.assertEqual(made["predicate"]["runDetails"]["builder"]["id"], "openpgp4fpr:FINGERPRINT")

    def test_the_repository(self):
        subprocess.run([ROOT / "packaging/debian/make_repository", self.made / "apt"], check=True, capture_output=True,
                       env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
        release = (self.made / "apt/dists/stable/Release").read_text()
        self.assertIn("Architectures: amd64\nDate: Tue, 14 Nov 2023 22:13:20 +0000\n", release)
        packages = self.made / "apt/dists/stable/main/binary-amd64/Packages"
        self.assertIn(f" {hashlib.sha256(packages.read_bytes()).hexdigest()} {packages.stat().st_size} main/binary-amd64/Packages\n",
                      release)
        self.assertIn("Filename: pool/tarn_0.1.0-1_amd64.deb\n", packages.read_text())


class Convention(unittest.TestCase):
    def test_each_folder_makes_its_artefact(self):
        for folder in (ROOT / "packaging").iterdir():
            if folder.is_dir() and folder.name != "__pycache__":
                maker = folder / "make_artefact"
                self.assertTrue(maker.is_file() and maker.stat().st_mode & 0o111, f"{folder} has no executable make_artefact")


if __name__ == "__main__":
    unittest.main()
