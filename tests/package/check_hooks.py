#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what the code that runs inside hooks of malloc takes from libc: nothing that could wait for a lock, or allocate. The
list, with the reason for each function, is that of docs/design/0010-recording.md; the two must agree.

Usage: check_hooks.py NOTE --recorder LIBRARY --apply LIBRARY --tail LIBRARY --sampling OBJECT…
"""

import argparse
import re
import subprocess
import sys

# Called inside hooks.
IN_HOOKS = {
    "recorder": """
        memchr memcpy memmove memset memcmp strcmp strlen strncmp getauxval getpagesize clock_gettime __errno_location environ
        __environ program_invocation_name __progname_full pthread_self pthread_setspecific pthread_getcpuclockid
        __libc_stack_end __rseq_offset __rseq_size""",
    "apply": """
        memcpy memset memcmp memchr strlen strrchr pthread_self getauxval __errno_location __libc_stack_end tarn_malloc tarn_calloc
        tarn_memalign tarn_aligned_alloc tarn_posix_memalign tarn_valloc tarn_pvalloc tarn_pool_of tarn_pool_allocate_slow
        tarn_pool_deallocate_slow tarn_buffer_pool_of tarn_buffer_get tarn_buffer_give_back""",
    "tail": """
        memcpy memmove memset strcmp strncmp getpagesize clock_gettime __errno_location environ __environ pthread_setspecific
        __rseq_offset __rseq_size""",
    # Beside the engine's other folders, whose imports check_libraries.py lists.
    "sampling": "memchr memcpy memmove memset memcmp strlen getauxval",
}
# Called only when the library is loaded or attached, at the process's end, or without memory; find_module's
# dl_iterate_phdr also in hooks, but only with glibc 2.34.
OUTSIDE = {
    "recorder": """dlsym dlopen dl_iterate_phdr gnu_get_libc_version pthread_key_create pthread_mutex_trylock
        pthread_mutex_unlock __register_atfork abort""",
    "apply": """
        dlsym dl_iterate_phdr getenv open close read write fstat mmap munmap readlink abort tarn_pool_shared tarn_pool_get_stats
        tarn_buffer_pool_create tarn_buffer_get_stats""",
    "tail": "dlsym dlopen dl_iterate_phdr gnu_get_libc_version pthread_key_create __register_atfork abort",
    "sampling": "",
}
# What the linker and the compiler add.
ALWAYS = "_ITM_deregisterTMCloneTable _ITM_registerTMCloneTable __cxa_finalize __gmon_start__ _GLOBAL_OFFSET_TABLE_ __popcountdi2".split()


def undefined_in(files, dynamic):
    options = ["-D"] if dynamic else []
    output = subprocess.run(["nm", *options, "--undefined-only", *files], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in output.splitlines() if re.match(r"\s+[Uwv] ", line)}
    return {name for name in names if not re.match(r"_ZN?K?4tarn|_ZNK4tarn|_ZTV?N4tarn", name)} - set(ALWAYS)


def problems_of(part, files, note):
    listed = set(IN_HOOKS[part].split()) | set(OUTSIDE[part].split())
    found = undefined_in(files, dynamic=part != "sampling")
    for name in sorted(found - listed):
        yield f"{part} takes {name}: code inside a hook may call nothing that waits or allocates; see check_hooks.py"
    for name in sorted(name for name in listed if f"`{name}`" not in note and not name.startswith("tarn_")):
        yield f"docs/design/0010-recording.md does not say why {name} is safe ({part})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("note")
    parser.add_argument("--recorder", required=True)
    parser.add_argument("--apply", required=True)
    parser.add_argument("--tail", required=True)
    parser.add_argument("--sampling", nargs="+", required=True)
    arguments = parser.parse_args()
    with open(arguments.note, encoding="utf-8") as file:
        note = file.read()
    parts = {"recorder": [arguments.recorder], "apply": [arguments.apply], "tail": [arguments.tail], "sampling": arguments.sampling}
    problems = [problem for part, files in parts.items() for problem in problems_of(part, files, note)]
    print("\n".join(problems) if problems else "hooks take from libc only what neither waits nor allocates")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
