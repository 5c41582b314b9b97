# SPDX-License-Identifier: MIT
"""The ways in which tarn comes into a program, and what each must leave behind."""

import json
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WAYS = ("preload", "hardened", "built-in", "sample", "full", "attach", "shim")
QUICK_WAYS = ("preload", "sample", "attach")
PROFILES = ("built-in", "sample", "full", "attach")  # they write a profile that is read afterwards
ATTACHED_SECONDS = 0.7


@dataclass(frozen=True)
class Tarn:
    """The build under test."""
    build: Path

    @property
    def command(self) -> str:
        return str(self.build / "bin/tarn")

    def library(self, name: str) -> str:
        return str(self.build / "lib" / name)

    def words_before(self, way: str, profile: Path) -> list[str]:
        """What stands before the program."""
        if way == "none" or way == "attach":
            return ["env"]
        if way == "preload":
            return ["env", f"LD_PRELOAD={self.library('libtarn.so.1')}"]
        if way == "hardened":
            return ["env", f"LD_PRELOAD={self.library('libtarn-hardened.so.1')}"]
        if way == "shim":
            return ["env", f"LD_PRELOAD={self.library('libtarn-jemalloc.so.2')}"]
        if way == "built-in":
            return ["env", f"LD_PRELOAD={self.library('libtarn.so.1')}", "TARN_PROFILE=on", f"TARN_PROFILE_FILE={profile}"]
        return [self.command, "profile", "-q", "--mode", way, "-o", str(profile), "--"]


def attach_to(tarn: Tarn, process: int, profile: Path, when_attached: Callable[[], None] = lambda: None) -> str:
    """Attaches for a while and detaches. Returns what went wrong; "" is success; "ended" if the process ended before."""
    if not is_alive(process):
        return "ended"
    words = [tarn.command, "attach", "--for", str(ATTACHED_SECONDS), "-o", str(profile), str(process)]
    started = time.monotonic()
    errors = ""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace") as attached:
        limit = threading.Timer(60, attached.kill)
        limit.start()
        for line in attached.stderr:
            errors += line
            if "recording process" in line:
                when_attached()
        status = attached.wait()
        limit.cancel()
    if status == -signal.SIGKILL:
        return "tarn attach did not end within 60 s"
    if status != 0:
        # It may have ended meanwhile, which is no failure of either.
        return "ended" if not is_alive(process) and time.monotonic() - started < 30 else f"attach: {errors.strip()[:300]}"
    return "a thread of tarn is left" if any(name.startswith("tarn") for name in thread_names(process)) else ""


def thread_names(process: int) -> list[str]:
    try:
        return [each.read_text().strip() for each in Path(f"/proc/{process}/task").glob("*/comm")]
    except OSError:
        return []


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def names_in(tarn: Tarn, way: str, profile: Path, own: str) -> str:
    """"" if the profile names the program's own source, or what stands there instead."""
    files = sorted(profile.parent.glob(profile.name + "*")) + sorted(profile.parent.glob(profile.stem + "-*"))
    files = [each for each in dict.fromkeys(files) if each.is_file()]
    if not files:
        return "no profile was written"
    if way == "built-in":  # a file for pprof, which looks the names up itself
        return "" if all(each.stat().st_size > 0 for each in files) else "an empty profile"
    seen = []
    for each in files:
        # Not the table, in which places whose cost may be nothing are one row.
        words = [tarn.command, "show", "--json", "-n", "0", "--full-names", str(each)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            return f"tarn show: {done.stderr.strip()[:200]}"
        sites = [f"{site['function']} {site.get('file', '')}:{site.get('line', 0)}" for site in json.loads(done.stdout)["sites"]]
        if not own or any(re.search(own, site) for site in sites):
            return ""
        seen += sites
    return f"no site matches '{own}': " + " | ".join(site[-70:] for site in seen[:3])


def as_shell(words: list[str], pid_file: Path) -> str:
    """The words as one prefix for bash; the program's process id goes into pid_file, where the prefix is only `env`."""
    if words == ["env"]:
        return f"bash -c 'echo $$ >{shlex.quote(str(pid_file))}; exec \"$@\"' -"
    return shlex.join(words)
