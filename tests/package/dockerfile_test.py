#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks examples/docker and packaging/container without Docker: the instructions of the Dockerfiles, their stages and files, and
what compose.yaml names. With --run the steps of the example are carried out in copies of a clean Debian instead of images, up to the
server's answer with tarn in its memory map.

Usage: dockerfile_test.py SOURCE [--run DEBIAN-12-ROOT]     the root is one of packaging/check_artefacts.py; needs root's rights

Status: 0 all of it holds; 1 with a line for each thing that does not; 77 not checked, with the reason.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

KNOWN = {"FROM", "RUN", "COPY", "ENV", "USER", "EXPOSE", "CMD"}
ENTER = r"""
set -eu
root=$1; shift
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" "$@"
"""


def instructions(text):
    """(word, rest) for each instruction; a backslash at a line's end joins it with the next."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, re.sub(r"\s+", " ", rest.strip())


def stages_of(steps):
    return {match.group(1) for word, rest in steps if word == "FROM" and (match := re.search(r" AS (\S+)$", rest))}


def problems_of_steps(source, dockerfile):
    steps = list(instructions((source / dockerfile).read_text(encoding="utf-8")))
    if not steps or steps[0][0] != "FROM":
        yield f"{dockerfile} does not begin with FROM"
    stages = stages_of(steps)
    for word, rest in steps:
        if word not in KNOWN:
            yield f"{word}: no instruction that this test knows"
        if word == "RUN" and subprocess.run(["sh", "-n", "-c", rest], check=False).returncode != 0:
            yield f"RUN {rest}: no sentence of sh"
        if word == "COPY":
            origin = re.match(r"--from=(\S+) ", rest)
            if origin and origin.group(1) not in stages:
                yield f"COPY {rest}: there is no stage {origin.group(1)}"
            if not origin and not rest.startswith("tarn-*-linux-*") and not (source / rest.split()[0]).exists():
                yield f"COPY {rest}: the source tree has no such file"
        if word == "CMD" and not isinstance(json.loads(rest), list):
            yield f"CMD {rest}: no list of words"
        # The options that the example sets must exist.
        for option in re.findall(r"-D(TARN_\w+)=", rest):
            if option not in (source / "cmake/tarn_options.cmake").read_text(encoding="utf-8"):
                yield f"{word}: tarn has no option {option}"


def problems_of(source):
    for dockerfile in ("examples/docker/Dockerfile", "packaging/container/Dockerfile"):
        yield from problems_of_steps(source, dockerfile)
    compose = (source / "examples/docker/compose.yaml").read_text(encoding="utf-8")
    for named in re.findall(r"dockerfile: (\S+)", compose):
        if not (source / named).is_file():
            yield f"compose.yaml: there is no {named}"
    options = (source / "src/engine/options.cpp").read_text(encoding="utf-8")
    for variable in re.findall(r"TARN_(\w+):", compose):
        if variable.lower() not in options:
            yield f"compose.yaml: tarn has no option {variable.lower()}"
    try:
        import yaml
    except ImportError:
        print("compose.yaml: not parsed, Python's module yaml is missing")
    else:
        services = yaml.safe_load(compose)["services"]
        for name, service in services.items():
            if not {"build", "image"} & service.keys():
                yield f"compose.yaml: {name} has neither build nor image"
            for other in service.get("depends_on", {}):
                if other not in services:
                    yield f"compose.yaml: {name} depends on {other}, which is not there"


class Stage:
    """A stage of the Dockerfile, in a copy of the clean system."""

    def __init__(self, base, folder):
        self.root, self.environment = folder, {}
        subprocess.run(["cp", "-a", "--one-file-system", base, folder], check=True)
        shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")

    def run(self, *words, **more):
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                       "DEBIAN_FRONTEND": "noninteractive", **self.environment}
        return subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", self.root,
                               "env", "-i", *(f"{name}={value}" for name, value in environment.items()), *words],
                              check=False, **more)


def carry_out(source, base, folder):
    """Does what `docker build` and the health check of compose.yaml do. Returns what went wrong."""
    stages, stage, command = {}, None, []
    for word, rest in instructions((source / "examples/docker/Dockerfile").read_text(encoding="utf-8")):
        print(f"{word} {rest}", flush=True)
        if word == "FROM":
            name = rest.rpartition(" AS ")[2]
            stage = stages[name] = Stage(base, folder / f"stage{len(stages)}")
        elif word == "RUN" and stage.run("sh", "-c", rest).returncode != 0:
            return [f"RUN {rest}: fails"]
        elif word == "ENV":
            name, _, value = rest.partition("=")
            stage.environment[name] = value
        elif word == "COPY":
            origin, *words = shlex.split(rest) if rest.startswith("--from=") else ["", *shlex.split(rest)]
            target = stage.root / words[1].lstrip("/")
            if origin:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(stages[origin.partition("=")[2]].root / words[0].lstrip("/"), target)
            else:
                shutil.copytree(source / words[0], target, symlinks=True,
                                ignore=shutil.ignore_patterns(".git", "build", "__pycache__", "node_modules"))
        elif word == "CMD":
            command = json.loads(rest)
    # As the service in its container: the server, then the health check.
    check = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; redis-cli ping && break; done; grep libtarn /proc/$server/maps"
    script = f"{shlex.join(command)} & server=$!; sleep 1; {check}"
    done = stage.run("sh", "-c", script, capture_output=True, text=True)
    print(done.stdout)
    return [] if "PONG" in done.stdout and "libtarn.so.1" in done.stdout else [f"the server does not run under tarn: {done.stderr}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--run", type=pathlib.Path)
    arguments = parser.parse_args()
    problems = list(problems_of(arguments.source))
    if arguments.run and not problems:
        if os.geteuid() != 0 or not arguments.run.is_dir():
            print(f"not carried out: needs root, and the system {arguments.run} (./dev release --check makes it)")
            return 77
        with tempfile.TemporaryDirectory(dir=arguments.run.parent) as folder:
            problems = carry_out(arguments.source.resolve(), arguments.run, pathlib.Path(folder))
    print("\n".join(problems) if problems else "the Dockerfiles and compose.yaml hold together")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
