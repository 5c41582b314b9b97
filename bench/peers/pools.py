# SPDX-License-Identifier: MIT
"""Who takes part in the pool benchmarks: what the programs call them, what the tables call them, and under which
malloc they run. A contender of a library that was not found at configure time is missing from the programs' lists.
"""

import fnmatch
import subprocess
from dataclasses import dataclass
from pathlib import Path

from peers.contender import SUBJECT, Contender, ContenderError, find_subject, installed_peers

REFERENCE, PEER, MALLOC, TARN = "reference", "peer", "malloc", "tarn"

# Name in the programs: name in the tables, kind.
POOLS = {
    "no-allocation": ("no allocation at all", REFERENCE),
    "bare-chain": ("bare single-thread chain", REFERENCE),
    "bare-thread-chain": ("bare thread-local chain", REFERENCE),
    "bare-thread-array": ("bare thread-local array", REFERENCE),
    "classic-memory-pool": ("classic memory pool, global", PEER),
    "classic-memory-pool-tls": ("classic memory pool, thread_local", PEER),
    "classic-object-pool": ("classic object pool", PEER),
    "classic-pooled-allocator": ("classic pooled_allocator", PEER),
    "boost-pool": ("boost::pool", PEER),
    "boost-object-pool": ("boost::object_pool", PEER),
    "boost-singleton-pool": ("boost::singleton_pool", PEER),
    "boost-fast-pool-allocator": ("boost::fast_pool_allocator", PEER),
    "boost-fast-pool-allocator-no-mutex": ("boost::fast_pool_allocator, no mutex", PEER),
    "boost-node-allocator": ("boost::container::node_allocator", PEER),
    "boost-pmr-unsynchronized": ("boost::container::pmr unsynchronized", PEER),
    "foonathan": ("foonathan::memory node pool", PEER),
    "foonathan-mutex": ("foonathan::memory node pool, mutex", PEER),
    "pmr-monotonic": ("std::pmr monotonic", PEER),
    "pmr-unsynchronized": ("std::pmr unsynchronized pool", PEER),
    "pmr-synchronized": ("std::pmr synchronized pool", PEER),
    "tarn-local-pool": ("tarn::local_pool", TARN),
    "tarn-pool-of": ("tarn::pool_of", TARN),
    "tarn-object-pool": ("tarn::object_pool", TARN),
    "tarn-pooled-allocator": ("tarn::pooled_allocator", TARN),
    "tarn-local-pool-resource": ("tarn::local_pool_resource", TARN),
}

# These run once under each of the mallocs.
UNDER_EACH_MALLOC = {"new-delete": "new/delete", "std-allocator": "std::allocator"}
MALLOCS = ("glibc", "jemalloc", "mimalloc", "gperftools")

# Debian package by which a library's version is told, and how its contenders' names begin.
LIBRARIES = {
    "Boost": ("libboost-dev", "boost-"),
    "Boost.Container": ("libboost-container-dev", "boost-node-"),
    "foonathan/memory": ("libfoonathan-memory-dev", "foonathan"),
}


@dataclass(frozen=True)
class PoolContender:
    label: str
    kind: str
    program_name: str
    malloc: Contender  # what is preloaded; glibc's for all pools


def mallocs(build_dir: Path, tarn: Path | None, notices: list[str]) -> list[tuple[str, Contender]]:
    """Kind and library of each malloc that is there."""
    installed, missing = installed_peers()
    notices += [line for line in missing if line.startswith(MALLOCS)]
    found = [(MALLOC, each) for each in installed if each.name in MALLOCS]
    library = find_subject(build_dir, tarn)
    if library:
        found.append((TARN, Contender(SUBJECT, library)))
    else:
        notices.append(f"new/delete under libtarn: no lib/libtarn.so in {build_dir} or beside it")
    return found


def listed(program: Path) -> list[str]:
    done = subprocess.run([str(program), "--list"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ContenderError(f"{program} --list ended with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout.split()


def contenders_of(program: Path, libraries: list[tuple[str, Contender]]) -> list[PoolContender]:
    """Those of one scene's program, which must know no name that the table above does not."""
    glibc = next(library for _, library in libraries if library.library is None)
    found = []
    for name in listed(program):
        if name in UNDER_EACH_MALLOC:
            found += [
                PoolContender(f"{UNDER_EACH_MALLOC[name]}, {library.name}", kind, name, library)
                for kind, library in libraries
            ]
        elif name in POOLS:
            found.append(PoolContender(*POOLS[name], name, glibc))
        else:
            raise ContenderError(f"{program.name} has a contender {name} that bench/peers/pools.py lacks")
    return found


def matching(contenders: list[PoolContender], patterns: str | None) -> list[PoolContender]:
    """Those whose label matches one of the comma-separated shell patterns."""
    if not patterns:
        return contenders
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    return [each for each in contenders if any(fnmatch.fnmatch(each.label, pattern) for pattern in wanted)]


def missing_libraries(names: set[str]) -> list[str]:
    """A notice for each library of which no program has a contender."""
    return [
        f"{library} was not found when the build was configured, so it takes no part "
        f"(Debian: apt-get install {package}, then configure again)"
        for library, (package, prefix) in LIBRARIES.items()
        if not any(name.startswith(prefix) for name in names)
    ]
