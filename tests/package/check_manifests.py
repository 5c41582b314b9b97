#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what packaging/ repeats of the build: the version, and for the crate tarn-sys, whose build script does without CMake,
the compiler's flags and the files of the engine.

Usage: check_manifests.py COMPILE_COMMANDS
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def list_in(text, name):
    """The strings of a constant of build.rs."""
    return set(re.findall(r'"([^"]+)"', re.search(rf"const {name}: .*?= &\[(.*?)\];", text, re.DOTALL).group(1)))


def version_problems():
    version = re.search(r"project\(tarn VERSION ([0-9.]+)", text_of("CMakeLists.txt")).group(1)
    for name, pattern in (("packaging/rust/Cargo.toml", r'^version = "(.*)"'),
                          ("packaging/rust/tarn/Cargo.toml", r'^tarn-sys = \{ version = "(.*?)"'),
                          ("packaging/vcpkg/ports/tarn/vcpkg.json", r'"version": "(.*)"')):
        found = re.search(pattern, text_of(name), re.MULTILINE)
        if not found or found.group(1) != version:
            yield f"{name} has version {found.group(1) if found else '?'}; CMakeLists.txt has {version}"


def flag_problems(build_script):
    flags = re.sub(r"^if\(TARN_UB_TRAPS\)$.*?^endif\(\)$", "", text_of("cmake/tarn_flags.cmake"), flags=re.DOTALL | re.MULTILINE)
    calls = re.findall(r"target_compile_options\(tarn_engine_options INTERFACE(.*?)\)\n", flags, re.DOTALL)
    code = re.sub(r"#.*", "", " ".join(calls))
    expected = set(re.findall(r"(?<![\w-])-[fU][\w=-]+", code)) - {"-fPIC"}  # cc's pic(true)
    if len(expected) < 10:
        yield "cmake/tarn_flags.cmake: the flags of tarn_engine_options were not found"
    for flag in sorted(expected - list_in(build_script, "FLAGS")):
        yield f"{flag} is missing in FLAGS of packaging/rust/tarn-sys/build.rs"


def file_problems(build_script, commands):
    """Of each layer, the files that CMake compiles must be those that the build script takes."""
    compiled = set()
    for command in commands:
        if re.search(r"src/CMakeFiles/tarn_(\w+)\.dir/", command.get("output") or command["command"]):
            path = Path(command["file"]).resolve()
            if not path.is_relative_to(ROOT):
                yield f"{path} is not of this project: the compiler's commands are those of another folder"
                return
            compiled.add(str(path.relative_to(ROOT)))
    layers = re.search(r"^set\(TARN_LAYERS (.*)\)$", text_of("src/CMakeLists.txt"), re.MULTILINE).group(1).split()
    outside = tuple(list_in(build_script, "NOT_IN_LAYERS"))
    taken = {str(path.relative_to(ROOT)) for layer in layers for path in (ROOT / "src" / layer).glob("*.cpp")
             if not path.name.startswith(outside)}
    # The script's feature `hardened` takes the files hardened_*, its feature `override` the files override*.
    wanted = {path for path in compiled if path.rpartition("/")[0].removeprefix("src/") in layers
              and not Path(path).name.startswith(("hardened_", "override", "program_start", "shared_"))}
    if len(wanted) < 50:
        yield f"only {len(wanted)} files of the engine were found in the compiler's commands"
    for path in sorted(wanted ^ taken):
        yield f"{path}: {'not compiled' if path in wanted else 'compiled only'} by packaging/rust/tarn-sys/build.rs"


def main():
    if len(sys.argv) != 2:
        print(__doc__.splitlines()[-1], file=sys.stderr)
        return 2
    build_script = text_of("packaging/rust/tarn-sys/build.rs")
    commands = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    problems = [*version_problems(), *flag_problems(build_script), *file_problems(build_script, commands)]
    print("\n".join(problems) if problems else "packaging/ agrees with the build in version, flags and files")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
