# SPDX-License-Identifier: MIT
"""A contender: one allocator as it is preloaded, and how contenders are found, named and chosen."""

import os
import shutil
import subprocess
from dataclasses import dataclass, replace
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
    twin_of: str | None = None  # the same library under a second name: shows the noise

    @property
    def is_peer(self) -> bool:
        return self.name != SUBJECT and self.twin_of is None


# Name, library file, Debian package.
INSTALLED = (
    ("jemalloc", "libjemalloc.so.2", "libjemalloc2"),
    ("mimalloc", "libmimalloc.so.2.0", "libmimalloc2.0"),
    ("gperftools", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    ("tbb", "libtbbmalloc_proxy.so.2", "libtbbmalloc2"),
)


def library_folders() -> list[Path]:
    """Where Debian puts libraries of this machine's architecture, most specific first."""
    machine = os.uname().machine
    return [
        Path(f"/usr/lib/{machine}-linux-gnu"),
        Path(f"/lib/{machine}-linux-gnu"),
        Path("/usr/lib64"),
        Path("/usr/lib"),
        Path("/usr/local/lib"),
    ]


def find_library(file_name: str) -> Path | None:
    for folder in library_folders():
        if (folder / file_name).exists():
            return folder / file_name
    return None


def installed_peers() -> tuple[list[Contender], list[str]]:
    """The peers that are here, glibc first, and a notice for each that is not."""
    found = [Contender(SYSTEM, None)]
    notices = []
    for name, file_name, package in INSTALLED:
        library = find_library(file_name)
        if library:
            found.append(Contender(name, library))
        else:
            notices.append(
                f"{name}: {file_name} is not installed, so it takes no part"
                f" (Debian: apt-get install {package})"
            )
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
    """NAME=LIBRARY[,VARIABLE=VALUE…]; an empty LIBRARY is the system's malloc."""
    name, equals, rest = text.partition("=")
    library, *settings = rest.split(",")
    if not equals or not name or any("=" not in setting for setting in settings):
        raise ContenderError(f'--with takes NAME=LIBRARY[,VARIABLE=VALUE...], not "{text}"')
    path = Path(library).resolve() if library else None
    if path and not path.exists():
        raise ContenderError(f"--with {name}: {library} does not exist")
    return Contender(name, path, tuple(tuple(setting.split("=", 1)) for setting in settings))


def twin(contender: Contender) -> Contender:
    return replace(contender, name=f"{contender.name} again", twin_of=contender.name)


def select(contenders: list[Contender], names: str | None) -> list[Contender]:
    """Those named in a comma-separated list, in their own order; all of them without a list."""
    if not names:
        return contenders
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = {contender.name for contender in contenders}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ContenderError(f"unknown contender {', '.join(unknown)}; here are: {', '.join(sorted(known))}")
    return [contender for contender in contenders if contender.name in wanted]


def c_library() -> Path | None:
    """The C library itself: preloaded, its malloc comes before that of a linked allocator."""
    return find_library("libc.so.6")


def version_of(contender: Contender) -> str:
    """The package version of an installed peer, for the record; empty when nobody knows."""
    path = contender.library or c_library()
    if not path or not shutil.which("dpkg-query"):
        return ""
    for candidate in (path, path.resolve(), Path(str(path).replace("/usr/lib", "/lib", 1))):
        owner = subprocess.run(
            ["dpkg-query", "-S", str(candidate)], capture_output=True, text=True, check=False
        )
        if owner.returncode == 0:
            package = owner.stdout.split(": ")[0].split(",")[0]
            return package_version(package)
    return ""


def package_version(package: str) -> str:
    """Of an installed Debian package; empty when nobody knows."""
    if not shutil.which("dpkg-query"):
        return ""
    shown = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip()
