# SPDX-License-Identifier: MIT
"""Runs probe_size under gdb and checks what otel_memory:alloc passes: a tracer counts blocks as weighted bytes / bytes, so both must
be of the same block. Where gdb is missing or may not trace, the test is skipped.

Usage: probe_size_test.py PROGRAM LIBRARY
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
COMMANDS = """set pagination off
set breakpoint pending on
set environment LD_PRELOAD {library}
set environment TARN_PROFILE 64K
set startup-with-shell off
break main
run
break -probe-stap otel_memory:alloc
commands
silent
printf "sample of %lu, weighted %lu\\n", $_probe_arg1, $_probe_arg2
continue
end
continue
"""


def main():
    program, library = sys.argv[1:]
    if shutil.which("gdb") is None:
        print("gdb is missing")
        return SKIPPED
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "DEBUGINFOD_URLS")}
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as commands:
        commands.write(COMMANDS.format(library=library))
        commands.flush()
        text = subprocess.run(["gdb", "-nx", "-batch", "-x", commands.name, program], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=100, check=False, env=environment).stdout
    usable = re.search(r"usable (\d+)", text)
    if usable is None:
        print(f"gdb cannot trace here:\n{text}")
        return SKIPPED
    size = int(usable[1])
    samples = [(int(bytes_), int(weighted)) for bytes_, weighted in re.findall(r"sample of (\d+), weighted (\d+)", text)]
    right = [one for one in samples if one[0] == size]
    print(f"{len(samples)} samples, {len(right)} of blocks of {size} bytes, the first {samples[:3]}")
    return 0 if len(right) >= 20 else 1


if __name__ == "__main__":
    sys.exit(main())
