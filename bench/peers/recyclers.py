# SPDX-License-Identifier: MIT
"""The recyclers of other languages: Go's sync.Pool and Netty's Recycler, and how their benchmarks are built.

Their sources are beside this file (go/, netty/). Go's needs the standard library alone; Maven fetches what the other
needs, pinned in its pom.xml. All that is built goes to build/peers, once for each state of the sources. Who cannot be
built here takes no part: `missing` says why, in one line.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from peers.contender import ContenderError
from peers.crates import run_logged

HERE = Path(__file__).resolve().parent
Say = Callable[[str], None]


@dataclass(frozen=True)
class Toolchain:
    """What builds and runs a peer."""

    peer: str  # as the tables call it
    programs: dict[str, str]  # each command, and the Debian package that brings it
    sources: Path

    def absent(self) -> str | None:
        names = [name for name in self.programs if not shutil.which(name)]
        if not names:
            return None
        packages = " ".join(dict.fromkeys(self.programs[name] for name in names))
        return f"{self.peer}: {' and '.join(names)} not installed, so it takes no part (Debian: apt-get install {packages})"

    def digest(self) -> str:
        """Of the sources, so that a change builds anew."""
        hasher = hashlib.sha256()
        for path in sorted(self.sources.rglob("*")):
            if path.is_file():
                hasher.update(f"{path.relative_to(self.sources)}\0".encode() + path.read_bytes())
        return hasher.hexdigest()


GO = Toolchain("Go sync.Pool", {"go": "golang-go"}, HERE / "go")
NETTY = Toolchain(
    "Netty Recycler", {"java": "default-jdk-headless", "javac": "default-jdk-headless", "mvn": "maven"}, HERE / "netty"
)


@dataclass(frozen=True)
class Peers:
    """Those that can take part."""

    go: Path | None = None  # the test program
    netty: Path | None = None  # the folder with classes and dependency/
    missing: tuple[str, ...] = ()


def stamp(folder: Path) -> Path:
    return folder / "sources.sha256"


def is_built(tools: Toolchain, folder: Path) -> bool:
    return stamp(folder).exists() and stamp(folder).read_text().strip() == tools.digest()


def build_go(folder: Path, log: Path) -> None:
    # The toolchain that is there, for Go otherwise fetches another.
    settings = ["GOTOOLCHAIN=local", "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0"]
    command = ["env", *settings, "go", "test", "-c", "-o", str(go_program(folder)), "."]
    run_logged(command, GO.sources, log)


def build_netty(folder: Path, log: Path) -> None:
    command = ["mvn", "--batch-mode", "--quiet", f"-Dtarn.build={folder}", "process-classes"]
    run_logged(command, NETTY.sources, log)


def go_program(folder: Path) -> Path:
    return folder / "recyclers.test"


def prepare(
    tools: Toolchain, folder: Path, build: Callable[[Path, Path], None], may_build: bool, missing: list[str], say: Say
) -> Path | None:
    """The peer's folder; None, and a line in `missing`, if it cannot take part."""
    absent = tools.absent()
    if absent:
        missing.append(absent)
        return None
    if is_built(tools, folder):
        return folder
    if not may_build:
        missing.append(f"{tools.peer}: not built in {folder}, so it takes no part (run without --built-peers)")
        return None
    log = folder.parent / f"{folder.name}.log"
    try:
        # What an earlier version left would be found beside the new.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        say(f"building the benchmarks of {tools.peer} in {folder}")
        build(folder, log)
        stamp(folder).write_text(tools.digest() + "\n")
    except (ContenderError, OSError) as error:
        missing.append(f"{tools.peer}: {failure(error, log)}")
        return None
    return folder


def failure(error: Exception, log: Path) -> str:
    text = log.read_text(errors="replace") if log.exists() else ""
    # Maven's words for a repository that it cannot reach.
    unreachable = r"(?i)unknown host|transfer failed|could not transfer|cannot access .* in offline mode"
    if re.search(unreachable, text):
        return f"Maven cannot fetch what its benchmarks need, so it takes no part (once with a network is enough; see {log})"
    return f"it takes no part: {error}"


def find(root: Path, may_build: bool, say: Say) -> Peers:
    """Both peers, in folders below `root`, built first where that is allowed and has not been done."""
    missing: list[str] = []
    go = prepare(GO, root / "go", build_go, may_build, missing, say)
    netty = prepare(NETTY, root / "netty", build_netty, may_build, missing, say)
    return Peers(go_program(go) if go else None, netty, tuple(missing))


def first_line(command: list[str]) -> str:
    """Of what a command prints about itself; empty if it cannot."""
    try:
        environment = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next(iter((done.stdout + done.stderr).splitlines()), "")


def versions(peers: Peers) -> dict[str, str]:
    found = {}
    if peers.go:
        found["Go"] = first_line(["go", "version"]).removeprefix("go version go").partition(" ")[0]
    if peers.netty:
        for jar in sorted((peers.netty / "dependency").glob("*.jar")):
            name, _, version = jar.stem.rpartition("-")
            if name in ("netty-common", "jmh-core"):
                found[name] = version
        quoted = re.search(r'"(.+?)"', first_line(["java", "-version"]))
        found["Java"] = quoted.group(1) if quoted else ""
    return {name: version for name, version in found.items() if version}
