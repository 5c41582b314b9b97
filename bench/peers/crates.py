# SPDX-License-Identifier: MIT
"""Builds newer peers from the C and C++ sources that travel inside Rust crates, at their release defaults.

cargo fetches the crates (pinned below); CMake or make builds them in build/peers. Nothing is built twice.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from peers.contender import Contender, ContenderError

CRATES = {"libmimalloc-sys": "0.1.49", "snmalloc-sys": "0.7.6", "tikv-jemalloc-sys": "0.7.1"}

# The mimalloc crate leaves out its cmake folder; these stand in for the files that its CMakeLists reads.
JOIN_PATHS = """function(join_paths result first)
  set(joined "${first}")
  foreach(segment IN LISTS ARGN)
    if(IS_ABSOLUTE "${segment}")
      set(joined "${segment}")
    else()
      set(joined "${joined}/${segment}")
    endif()
  endforeach()
  set(${result} "${joined}" PARENT_SCOPE)
endfunction()
"""


def run_logged(command: list[str], folder: Path, log: Path) -> None:
    """Runs a build step; a failure names the step and its log."""
    with log.open("ab") as sink:
        done = subprocess.run(command, cwd=folder, stdout=sink, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise ContenderError(f"building peers: {' '.join(command[:3])} failed; see {log}")


def cmake_build(source: Path, build: Path, log: Path, *options: str, target: str = "all") -> Path:
    configure = ["cmake", "-S", str(source), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release", *options]
    run_logged(configure, build.parent, log)
    run_logged(["cmake", "--build", str(build), "--target", target], build.parent, log)
    return build


def fetch(root: Path, log: Path) -> Path:
    """The crates' sources, in root/vendor."""
    vendor = root / "vendor"
    if all((vendor / name / "Cargo.toml").exists() for name in CRATES):
        return vendor
    if not shutil.which("cargo"):
        raise ContenderError("--peers-from-crates needs cargo to fetch the sources (Debian: apt-get install cargo)")
    project = root / "fetch"
    (project / "src").mkdir(parents=True, exist_ok=True)
    (project / "src" / "lib.rs").write_text("")
    pins = "".join(f'{name} = "={version}"\n' for name, version in CRATES.items())
    (project / "Cargo.toml").write_text(
        f'[package]\nname = "tarn-bench-peers"\nversion = "0.0.0"\nedition = "2021"\n\n[dependencies]\n{pins}'
    )
    run_logged(["cargo", "vendor", str(vendor)], project, log)
    return vendor


def mimalloc_version(source: Path) -> list[str]:
    """Major, minor and patch out of MI_MALLOC_VERSION (2.4.1 is written 20401 or 2041)."""
    header = (source / "include" / "mimalloc.h").read_text()
    digits = re.search(r"#define MI_MALLOC_VERSION\s+(\d+)", header)
    if not digits:
        raise ContenderError(f"{source}: no MI_MALLOC_VERSION in its header")
    number = digits.group(1)
    width = (len(number) - 1) // 2
    return [number[0], str(int(number[1 : 1 + width])), str(int(number[1 + width :]))]


def build_mimalloc(vendor: Path, root: Path, generation: str, log: Path) -> Contender:
    source = root / f"mimalloc-{generation}-source"
    if not source.exists():
        shutil.copytree(vendor / "libmimalloc-sys" / "c_src" / "mimalloc" / generation, source)
    version = mimalloc_version(source)
    (source / "cmake").mkdir(exist_ok=True)
    (source / "cmake" / "JoinPaths.cmake").write_text(JOIN_PATHS)
    (source / "cmake" / "mimalloc-config.cmake").write_text("")
    numbers = [f"set(mi_version_{part} {value})\n" for part, value in zip(("major", "minor", "patch"), version)]
    text = "".join([*numbers, f"set(mi_version {version[0]}.{version[1]})\n"])
    (source / "cmake" / "mimalloc-config-version.cmake").write_text(text)
    options = ("-DMI_BUILD_TESTS=OFF", "-DMI_BUILD_STATIC=OFF", "-DMI_BUILD_OBJECT=OFF")
    build = cmake_build(source, root / f"mimalloc-{generation}", log, *options)
    return Contender(f"mimalloc{'.'.join(version)}", single_library(build, "libmimalloc*.so"))


def build_snmalloc(vendor: Path, root: Path, log: Path) -> Contender:
    source = vendor / "snmalloc-sys" / "upstream"
    build = cmake_build(source, root / "snmalloc", log, "-DSNMALLOC_BUILD_TESTING=OFF", target="snmallocshim")
    return Contender(f"snmalloc{CRATES['snmalloc-sys']}", single_library(build, "libsnmallocshim.so"))


def build_jemalloc(vendor: Path, root: Path, log: Path) -> Contender:
    crate = vendor / "tikv-jemalloc-sys"
    build = root / "jemalloc"
    version = "5.3.1"
    if not (build / "Makefile").exists():
        shutil.copytree(crate / "jemalloc", build, dirs_exist_ok=True)
        shutil.copy(crate / "configure" / "configure", build / "configure")
        run_logged(["sh", "./configure", f"--with-version={version}-0-g0", "--enable-doc=no"], build, log)
    run_logged(["make", f"-j{min(os.cpu_count() or 1, 4)}", "build_lib_shared"], build, log)
    return Contender(f"jemalloc{version}", single_library(build / "lib", "libjemalloc.so"))


def single_library(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise ContenderError(f"building peers: no {pattern} in {folder}")
    return found[0].resolve()


def build_all(root: Path, say) -> list[Contender]:
    """All peers out of crates; `say` receives a line or two about what is done."""
    root.mkdir(parents=True, exist_ok=True)
    log = root / "build.log"
    say(f"fetching peers' sources into {root}")
    vendor = fetch(root, log)
    say("building mimalloc 2 and 3, snmalloc and jemalloc")
    mimallocs = [build_mimalloc(vendor, root, generation, log) for generation in ("v2", "v3")]
    return [*mimallocs, build_snmalloc(vendor, root, log), build_jemalloc(vendor, root, log)]
