#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Installs each artefact of a release in clean Debian systems, tries it, removes it, and shows that nothing remains.

Usage: check_artefacts.py [--from OLDER] ARTEFACTS ROOTS [SUITE…]      suites: bookworm trixie, unless named; bullseye

OLDER is the folder of an older release, which is installed and tried first, and then upgraded.

ARTEFACTS is the folder that ./dev release has filled. A folder of packaging/ with an executable try_artefact takes part:
`try_artefact install|try|remove ARTEFACTS` runs as root in the clean system. Where the artefact was not made, or is not meant
for the system, `install` ends with status 77 and a last line that says so. The systems are made by debootstrap, with a
C compiler and the libraries that tarn's packages depend on, so that a check needs no network; ROOTS keeps them. Each check
works on a copy. Needs root, debootstrap and unshare.

Prints a table; status 0: all that was tried is "yes"; 1: something is not; 77: nothing could be tried, with a line that says
why.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

PACKAGING = pathlib.Path(__file__).resolve().parent
# What tarn's packages depend on has other names in Debian 13 and later, where times have 64 bits.
COMMON = ["gcc", "libc6-dev", "pkgconf", "libstdc++6", "libzstd1", "zlib1g"]
SUITES = {"bookworm": ("Debian 12", [*COMMON, "libdw1", "libelf1"]),
          "trixie": ("Debian 13", [*COMMON, "libdw1t64", "libelf1t64"]),
          "bullseye": ("Debian 11", ["gcc", "libc6-dev", "pkgconf"])}
USUAL = ["bookworm", "trixie"]
NOT_TRIED = 77  # status of try_artefact install where the artefact was not made, or is not meant for the system
# Files that any installation of anything changes: logs, caches, and the package manager's own records.
RECORDS = ("var/log/", "var/cache/", "var/lib/apt/", "var/lib/dpkg/", "etc/ld.so.cache", "run/", "tmp/", "artefacts/",
           "packaging/")
# Runs in the clean system. Its mounts and processes end with it.
ENTER = r"""
set -eu
root=$1; shift
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$1" "$root/artefacts"; shift
mount --bind "$1" "$root/packaging"; shift
exec chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"
"""


def lacking(why):
    print(f"not checked: {why}")
    sys.exit(77)


def mirror():
    """Where this system gets its packages from, so that no other place need be reachable."""
    named = os.environ.get("TARN_DEBIAN_MIRROR")
    if named:
        return [named]
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Codename: bookworm"],
                            capture_output=True, text=True, check=False).stdout.split()
    return [uri for uri in listed if "security" not in uri][:1]


def clean_root(roots, suite, log):
    """The folder of the clean system, made if it is not there."""
    root = roots / suite
    if root.is_dir():
        return root
    making = roots / f"{suite}.making"
    shutil.rmtree(making, ignore_errors=True)
    roots.mkdir(parents=True, exist_ok=True)
    # In a mount namespace of its own: debootstrap leaves /proc mounted in the system while another program reads it.
    words = ["unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={','.join(SUITES[suite][1])}", suite,
             making, *mirror()]
    if subprocess.run(words, stdout=log, stderr=log, check=False).returncode != 0:
        lacking(f"debootstrap cannot make {suite}; its messages are in {log.name}")
    shutil.rmtree(making / "var/cache/apt/archives", ignore_errors=True)
    for folder in ("artefacts", "packaging", "var/cache/apt/archives/partial"):
        (making / folder).mkdir(parents=True, exist_ok=True)
    making.rename(root)
    return root


def copy_of(base):
    """A fresh copy of the system beside it, without what is mounted in it: a copy of /proc would fill the disk."""
    copy = base.with_name(f"{base.name}.copy")
    shutil.rmtree(copy, ignore_errors=True)
    subprocess.run(["cp", "-a", "--one-file-system", "--reflink=auto", base, copy], check=True)
    return copy


def contents(root):
    """Every file of the system by its path: its kind and, of a file in /etc, a checksum of its text."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = pathlib.Path(folder) / name
            inside = str(path.relative_to(root))
            if inside.startswith(RECORDS):
                continue
            kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file"
            if inside.startswith("etc/") and kind == "file":
                kind = hashlib.sha256(path.read_bytes()).hexdigest()
            found[inside] = kind
    return found


def differences(before, after):
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            yield f"{'left behind' if path not in before else 'gone' if path not in after else 'changed'}: /{path}"


class Check:
    """One artefact in one system."""

    def __init__(self, name, suite, artefacts, log, older=None):
        self.name, self.suite, self.artefacts, self.log, self.older = name, suite, artefacts, log, older
        self.results, self.problems, self.seconds = {}, [], 0.0

    def run(self, root):
        started = time.monotonic()
        before = contents(root)
        actions = [("install", self.artefacts), ("try", self.artefacts), ("remove", self.artefacts)]
        if self.older:
            actions[:1] = [("install", self.older), ("try", self.older), ("upgrade", self.artefacts)]
        for action, artefacts in actions:
            status = self.act(root, action, artefacts)
            if action == "install" and status == NOT_TRIED:
                self.problems.append(f"not tried: {self.last_line()}")
                return
            self.results[action] = self.results.get(action, True) and status == 0
            if status != 0:
                self.problems.append(f"{action}: status {status}; see {self.log.name}")
            if action in ("install", "upgrade") and status != 0:
                break
        remains = list(differences(before, contents(root)))
        self.problems += remains
        self.results["nothing remains"] = self.results.get("remove", False) and not remains
        self.seconds = time.monotonic() - started

    def act(self, root, action, artefacts):
        self.log.write(f"--- {self.name} in {self.suite}: {action}\n")
        self.log.flush()
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", root, artefacts,
                 PACKAGING, f"/packaging/{self.name}/try_artefact", action.replace("upgrade", "install"), "/artefacts"]
        return subprocess.run(words, stdout=self.log, stderr=subprocess.STDOUT, check=False).returncode

    def last_line(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace").splitlines()[-1]

    def row(self):
        if not self.results:
            return [self.name, SUITES[self.suite][0], "not tried", *["-"] * 5]
        marks = ["yes" if self.results.get(action) else "NO" for action in ("install", "upgrade", "try", "remove", "nothing remains")]
        if not self.older:
            marks[1] = "-"
        return [self.name, SUITES[self.suite][0], *marks, f"{self.seconds:.0f} s"]


def print_table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="older", type=pathlib.Path)
    parser.add_argument("artefacts", type=pathlib.Path)
    parser.add_argument("roots", type=pathlib.Path)
    parser.add_argument("suites", nargs="*", default=USUAL)
    arguments = parser.parse_args()
    for suite in arguments.suites:
        if suite not in SUITES:
            parser.error(f"there is no suite {suite} here; there are: {' '.join(SUITES)}")
    artefacts, older = arguments.artefacts.resolve(), arguments.older and arguments.older.resolve()
    for folder in filter(None, (older, artefacts)):
        if not folder.is_dir() or subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=folder, check=False).returncode:
            sys.exit(f"{folder} does not agree with its SHA256SUMS; make the artefacts again: ./dev release")
    if os.geteuid() != 0:
        lacking("clean systems need root (chroot); run it as root")
    for tool in ("debootstrap", "unshare"):
        if shutil.which(tool) is None:
            lacking(f"{tool} is missing (Debian packages debootstrap, util-linux)")
    names = sorted(path.parent.name for path in PACKAGING.glob("*/try_artefact"))
    rows, problems, tried = [["artefact", "system", "installed", "upgraded", "tried", "removed", "nothing remains", "time"]], [], 0
    with (artefacts.parent / "check.log").open("w", encoding="utf-8") as log:
        for suite in arguments.suites:
            base = clean_root(arguments.roots.resolve(), suite, log)
            for name in names:
                copy = copy_of(base)
                check = Check(name, suite, artefacts, log, older)
                check.run(copy)
                rows.append(check.row())
                tried += bool(check.results)
                problems += [f"{name} in {suite}: {problem}" for problem in check.problems]
                shutil.rmtree(copy)
    print_table(rows)
    print("\n".join(problems))
    if not tried:
        lacking("none of the artefacts can be tried in these systems")
    return 1 if any("NO" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
