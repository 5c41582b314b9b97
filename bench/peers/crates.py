# SPDX-License-Identifier: MIT
"""Builds newer peers from the C and C++ sources that travel inside Rust crates, at their release defaults.

cargo fetches the crates (pinned below); CMake or make builds each in a folder of build/peers that has the crate's version
in its name. Nothing is built twice.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from peers.contender import Contender, ContenderError

CRATES = {"libmimalloc-sys": "0.1.49", "snmalloc-sys": "0.7.6", "tikv-jemalloc-sys": "0.7.1", "libtcmalloc-sys": "0.1.14"}
JOBS = str(min(os.cpu_count() or 1, 4))

# tcmalloc has per-CPU caches only if it registers restartable sequences itself, which glibc 2.35 and newer do first unless
# they are told not to. Without these caches tcmalloc falls back to caches per thread.
RSEQ_FOR_TCMALLOC = (("GLIBC_TUNABLES", "glibc.pthread.rseq=0"),)

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
    run_logged(["cmake", "--build", str(build), "--target", target, "--parallel", JOBS], build.parent, log)
    return build


def fetch(root: Path, log: Path) -> Path:
    """The crates' sources, in root/vendor, of the pinned versions."""
    vendor, project = root / "vendor", root / "fetch"
    pins = "".join(f'{name} = "={version}"\n' for name, version in CRATES.items())
    text = f'[package]\nname = "tarn-bench-peers"\nversion = "0.0.0"\nedition = "2021"\n\n[dependencies]\n{pins}'
    manifest = project / "Cargo.toml"
    complete = all((vendor / name / "Cargo.toml").exists() for name in CRATES)
    if complete and manifest.exists() and manifest.read_text() == text:
        return vendor
    if not shutil.which("cargo"):
        raise ContenderError("--peers-from-crates needs cargo to fetch the sources (Debian: apt-get install cargo)")
    (project / "src").mkdir(parents=True, exist_ok=True)
    (project / "src" / "lib.rs").write_text("")
    shutil.rmtree(vendor, ignore_errors=True)  # after a failure, older sources would pass for these
    manifest.write_text(text)
    run_logged(["cargo", "vendor", str(vendor)], project, log)
    return vendor


def folder_of(root: Path, name: str, crate: str) -> Path:
    return root / f"{name}-{CRATES[crate]}"


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
    crate = "libmimalloc-sys"
    source = folder_of(root, f"mimalloc-{generation}-source", crate)
    if not source.exists():
        shutil.copytree(vendor / crate / "c_src" / "mimalloc" / generation, source)
    version = mimalloc_version(source)
    (source / "cmake").mkdir(exist_ok=True)
    (source / "cmake" / "JoinPaths.cmake").write_text(JOIN_PATHS)
    (source / "cmake" / "mimalloc-config.cmake").write_text("")
    numbers = [f"set(mi_version_{part} {value})\n" for part, value in zip(("major", "minor", "patch"), version)]
    text = "".join([*numbers, f"set(mi_version {version[0]}.{version[1]})\n"])
    (source / "cmake" / "mimalloc-config-version.cmake").write_text(text)
    options = ("-DMI_BUILD_TESTS=OFF", "-DMI_BUILD_STATIC=OFF", "-DMI_BUILD_OBJECT=OFF")
    build = cmake_build(source, folder_of(root, f"mimalloc-{generation}", crate), log, *options)
    return Contender(f"mimalloc{'.'.join(version)}", single_library(build, "libmimalloc*.so"))


def build_snmalloc(vendor: Path, root: Path, log: Path) -> Contender:
    crate = "snmalloc-sys"
    build = folder_of(root, "snmalloc", crate)
    cmake_build(vendor / crate / "upstream", build, log, "-DSNMALLOC_BUILD_TESTING=OFF", target="snmallocshim")
    return Contender(f"snmalloc{CRATES[crate]}", single_library(build, "libsnmallocshim.so"))


def build_jemalloc(vendor: Path, root: Path, log: Path) -> Contender:
    crate = "tikv-jemalloc-sys"
    build = folder_of(root, "jemalloc", crate)
    version = "5.3.1"
    if not (build / "Makefile").exists():
        shutil.copytree(vendor / crate / "jemalloc", build, dirs_exist_ok=True)
        shutil.copy(vendor / crate / "configure" / "configure", build / "configure")
        run_logged(["sh", "./configure", f"--with-version={version}-0-g0", "--enable-doc=no"], build, log)
    run_logged(["make", f"-j{JOBS}", "build_lib_shared"], build, log)
    return Contender(f"jemalloc{version}", single_library(build / "lib", "libjemalloc.so"))


def build_tcmalloc(vendor: Path, root: Path, log: Path) -> Contender:
    """Upstream has no releases; the crate is of June 2025."""
    crate = "libtcmalloc-sys"
    source = Path(__file__).resolve().parent / "tcmalloc"
    build = cmake_build(source, folder_of(root, "tcmalloc", crate), log, f"-DCRATE={vendor / crate}")
    return Contender("tcmalloc2025.06", single_library(build, "libtcmalloc.so"), RSEQ_FOR_TCMALLOC)


def has_caches_per_processor(tcmalloc: Contender) -> bool:
    """As a process under it says."""
    command = [sys.executable, "-c", "import ctypes; ctypes.CDLL(None).malloc_stats()"]
    environment = {**os.environ, **dict(tcmalloc.environment), "LD_PRELOAD": str(tcmalloc.library)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return re.search(r"MALLOC: +[1-9]\d* .*per-CPU slab bytes used", done.stdout + done.stderr) is not None


def single_library(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise ContenderError(f"building peers: no {pattern} in {folder}")
    return found[0].resolve()


def build_all(root: Path, say: Callable[[str], None], notices: list[str]) -> list[Contender]:
    """All peers out of crates; `say` receives a line or two about what is done."""
    root.mkdir(parents=True, exist_ok=True)
    log = root / "build.log"
    say(f"fetching peers' sources into {root}")
    vendor = fetch(root, log)
    say("building mimalloc 2 and 3, snmalloc, jemalloc and tcmalloc")
    mimallocs = [build_mimalloc(vendor, root, generation, log) for generation in ("v2", "v3")]
    tcmalloc = build_tcmalloc(vendor, root, log)
    if not has_caches_per_processor(tcmalloc):
        notices.append(f"{tcmalloc.name}: no restartable sequences here, so it has caches per thread, not per processor")
    return [*mimallocs, build_snmalloc(vendor, root, log), build_jemalloc(vendor, root, log), tcmalloc]
