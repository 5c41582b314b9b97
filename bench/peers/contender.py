# SPDX-License-Identifier: MIT
"""A contender: one allocator as it is preloaded, and how contenders are found, named and chosen."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SUBJECT = "tarn"
SYSTEM = "glibc"


class ContenderError(Exception):
    """A contender that was asked for cannot take part; the message says what to do."""


@dataclass(frozen=True)
class Contender:
    name: str
    library: Path | None  # None: the C library's own malloc
    environment: tuple[tuple[str, str], ...] = ()


SYSTEM_MALLOC = Contender(SYSTEM, None)

# Name, library file, Debian package; of two files under one name, the first that is here.
INSTALLED = (
    ("jemalloc", "libjemalloc.so.2", "libjemalloc2"),
    ("mimalloc", "libmimalloc.so.3", "libmimalloc3"),  # Debian 13
    ("mimalloc", "libmimalloc.so.2.0", "libmimalloc2.0"),  # Debian 12
    ("gperftools", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    ("tbb", "libtbbmalloc_proxy.so.2", "libtbbmalloc2"),
)


def library_folders() -> list[Path]:
    """Where Debian puts libraries of this machine's architecture, most specific first."""
    machine = os.uname().machine
    folders = (f"/usr/lib/{machine}-linux-gnu", f"/lib/{machine}-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
    return [Path(folder) for folder in folders]


def find_library(file_name: str) -> Path | None:
    for folder in library_folders():
        if (folder / file_name).exists():
            return folder / file_name
    return None


def installed_peers(without: tuple[str, ...] = ()) -> tuple[list[Contender], list[str]]:
    """The peers that are here, glibc first, and a notice for each that is not; those named in `without` are neither."""
    found = [SYSTEM_MALLOC]
    missing: dict[str, str] = {}
    for name, file_name, package in INSTALLED:
        if name in without or any(each.name == name for each in found):
            continue
        if library := find_library(file_name):
            found.append(Contender(name, library))
        elif name not in missing:
            missing[name] = f"{name}: {file_name} is not installed, so it takes no part (Debian: apt-get install {package})"
    notices = [notice for name, notice in missing.items() if not any(each.name == name for each in found)]
    return found, notices


def find_subject(build_dir: Path, explicit: Path | None) -> Path | None:
    """libtarn.so: as named, or in this build, or in the release build beside it."""
    if explicit:
        if not explicit.exists():
            raise ContenderError(f"--tarn: {explicit} does not exist")
        return explicit.resolve()
    for folder in (build_dir, build_dir.parent / "release"):
        library = folder / "lib" / "libtarn.so"
        if library.exists():
            return library.resolve()
    return None


def parse_extra(text: str) -> Contender:
    """NAME=LIBRARY[,VARIABLE=VALUE…]; an empty LIBRARY is the system's malloc. A value may have commas, as jemalloc's has."""
    name, equals, rest = text.partition("=")
    library, *settings = re.split(r",(?=\w+=)", rest)
    if not equals or not name or "," in library:
        raise ContenderError(f'--with takes NAME=LIBRARY[,VARIABLE=VALUE...], not "{text}"')
    path = Path(library).resolve() if library else None
    if path and not path.exists():
        raise ContenderError(f"--with {name}: {library} does not exist")
    return Contender(name, path, tuple(tuple(setting.split("=", 1)) for setting in settings))


def c_library() -> Path | None:
    """The C library itself: preloaded, its malloc comes before that of a linked allocator."""
    return find_library("libc.so.6")


def version_of(contender: Contender) -> str:
    """The package version of an installed peer, for the record; empty when nobody knows."""
    path = contender.library or c_library()
    if not path or not shutil.which("dpkg-query"):
        return ""
    for candidate in (path, path.resolve(), Path(str(path).replace("/usr/lib", "/lib", 1))):
        owner = subprocess.run(["dpkg-query", "-S", str(candidate)], capture_output=True, text=True, check=False)
        if owner.returncode == 0:
            return package_version(owner.stdout.split(": ")[0].split(",")[0])
    return ""


def package_version(package: str) -> str:
    """Of an installed Debian package; empty when nobody knows."""
    if not shutil.which("dpkg-query"):
        return ""
    command = ["dpkg-query", "-W", "-f", "${Version}", package]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
