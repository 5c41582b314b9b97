#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the shared libraries as files: what they need, what they export, how they are linked.

Usage: check_libraries.py LIBTARN LIBTARN_API LIBTARN_JEMALLOC --soname NAME
"""

import argparse
import re
import subprocess
import sys

ALLOCATION = """
    malloc free calloc realloc reallocarray cfree free_sized free_aligned_sized posix_memalign aligned_alloc
    memalign valloc pvalloc malloc_usable_size malloc_trim mallinfo2 malloc_stats malloc_info mallopt""".split()
# new, new[]: plain, nothrow, aligned, aligned and nothrow. delete, delete[]: plain, nothrow, sized, aligned, and the
# standard's combinations.
OPERATORS = [
    f"_Z{operator}{arguments}"
    for operators, forms in (
        (("nwm", "nam"), ("", "RKSt9nothrow_t", "St11align_val_t", "St11align_val_tRKSt9nothrow_t")),
        (("dlPv", "daPv"), ("", "RKSt9nothrow_t", "m", "St11align_val_t", "mSt11align_val_t",
                            "St11align_val_tRKSt9nothrow_t")))
    for operator in operators for arguments in forms]
# src/background/rights: the calls that change a thread's rights, before which the engine's background thread must end, vfork, and _exit.
GATES = """
    setuid setgid seteuid setegid setreuid setregid setresuid setresgid setgroups initgroups setfsuid setfsgid capset prctl unshare
    setns close_range clone _Fork syscall vfork __vfork _exit _Exit""".split()
# The functions that the engine may import from libc. The background thread has none of libc's thread-local data, and a
# library of the program may replace any of these functions, so that thread may call only those of the first line.
IMPORTS = """
    memchr memcmp memcpy memmove memset strchr strcmp strlen strncmp getauxval sched_yield sysconf
    __errno_location __environ environ __progname_full program_invocation_name secure_getenv fprintf
    __register_atfork __cxa_atexit on_exit dlsym dl_iterate_phdr madvise munmap sigaction sigemptyset sigfillset
    pthread_attr_destroy pthread_attr_init pthread_attr_setdetachstate pthread_create pthread_key_create
    pthread_mutex_lock pthread_mutex_unlock pthread_setspecific pthread_sigmask""".split()
PUBLIC = """
    tarn_malloc tarn_calloc tarn_realloc tarn_reallocarray tarn_free tarn_free_sized tarn_free_aligned_sized
    tarn_posix_memalign tarn_aligned_alloc tarn_memalign tarn_valloc tarn_pvalloc tarn_usable_size
    tarn_good_size tarn_trim tarn_on_pressure tarn_off_pressure tarn_get_pressure tarn_would_move tarn_would_move_each tarn_move tarn_visit_pinned tarn_pinned_by tarn_get_stats tarn_get_stats_sized tarn_stats_json tarn_count_begin tarn_count_end tarn_profile_start tarn_profile_stop tarn_profile_write
    tarn_profile_dump tarn_visit_profile tarn_option_at tarn_set_option tarn_version
    tarn_scope_begin tarn_scope_enter tarn_scope_leave tarn_scope_current tarn_scope_end tarn_scope_get_stats tarn_scope_visit""".split()


# src/malloc/jemalloc: what libjemalloc.so.2 exports besides.
JEMALLOC = """
    mallocx rallocx xallocx sallocx dallocx sdallocx nallocx mallctl mallctlnametomib mallctlbymib malloc_stats_print
    malloc_conf malloc_message""".split()


def readelf(option, library):
    return subprocess.run(["readelf", "-W", option, library], check=True, capture_output=True, text=True).stdout


def symbols_of(library):
    """(names that the library exports, names that it imports and that are not weak)."""
    exported, needed = set(), set()
    for line in readelf("--dyn-syms", library).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
            continue
        binding, section, name = fields[4], fields[6], fields[7]
        if section != "UND":
            exported.add(name.split("@")[0])
        elif binding != "WEAK":
            needed.add(name)
    return exported, needed


def problems_of(library, soname, required, allowed):
    dynamic = readelf("-d", library)
    needs = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    for name in needs:
        if not re.fullmatch(r"libc\.so\.6|ld-linux.*\.so\.\d+", name):
            yield f"needs {name}; the engine may need libc alone"
    if f"[{soname}]" not in dynamic:
        yield f"its SONAME is not {soname}"
    if not re.search(r"BIND_NOW|FLAGS_1.*NOW", dynamic):
        yield "is not linked with -z now: a first call could resolve symbols, which allocates"
    if "NODELETE" not in dynamic:
        yield "is not linked with -z nodelete: dlclose would remove code that ending threads still run"
    if "INITFIRST" not in dynamic:
        yield "is not linked with -z initfirst: fork handlers of other libraries would find its locks taken"
    if "TEXTREL" in dynamic:
        yield "holds text relocations"
    segments = readelf("-l", library)
    if "GNU_RELRO" not in segments:
        yield "is not linked with -z relro"
    if re.search(r"GNU_STACK.*RWE", segments):
        yield "asks for an executable stack"
    exported, needed = symbols_of(library)
    for name in sorted(set(required) - exported):
        yield f"does not export {name}"
    for name in sorted(name for name in exported if not allowed.fullmatch(name)):
        yield f"exports {name}"
    for name in sorted(name for name in needed if "@GLIBC_" not in name):
        yield f"needs {name}, which is not libc's"
    for name in sorted({name.split("@")[0] for name in needed} - set(IMPORTS)):
        yield f"takes {name} from libc; see IMPORTS in tests/package/check_libraries.py"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libtarn")
    parser.add_argument("libtarn_api")
    parser.add_argument("libtarn_jemalloc")
    parser.add_argument("--soname", required=True)
    arguments = parser.parse_args()
    required_gates = GATES + (["ioperm", "iopl"] if "X86-64" in readelf("-h", arguments.libtarn) else [])
    gates = "|".join(required_gates)
    family = "|".join([*ALLOCATION, "mallinfo"])
    checks = [
        (arguments.libtarn, arguments.soname, PUBLIC + required_gates + ALLOCATION + OPERATORS + ["dlopen"],
         re.compile(rf"tarn_\w+|_Z(nw|na|dl|da)\w+|{family}|{gates}|dlopen")),
        (arguments.libtarn_api, arguments.soname.replace("libtarn", "libtarn-api"), PUBLIC + required_gates,
         re.compile(rf"tarn_\w+|{gates}")),
        (arguments.libtarn_jemalloc, "libtarn-jemalloc.so.2", PUBLIC + required_gates + ALLOCATION + OPERATORS + JEMALLOC,
         re.compile(rf"tarn_\w+|_Z(nw|na|dl|da)\w+|{family}|{gates}|dlopen|{'|'.join(JEMALLOC)}")),
    ]
    problems = [f"{check[0]} {problem}" for check in checks for problem in problems_of(*check)]
    print("\n".join(problems) if problems else "the libraries need libc alone and export what they promise")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
