# SPDX-License-Identifier: MIT
"""Runs probe_order under bpftrace, with a small distance between samples, and checks that each address's otel_memory:alloc and
otel_memory:free come in turn: a tracer that pairs them by address would otherwise lose a live block. Where bpftrace is missing or
may not trace, the test is skipped.

Usage: probe_order_test.py PROGRAM LIBRARY
"""
import os
import shutil
import signal
import subprocess
import sys

SKIPPED = 77
SCRIPT = """
usdt:{0}:otel_memory:alloc {{ @allocated = count(); if (@live[arg0]) {{ @twice = count(); }} @live[arg0] = 1; }}
usdt:{0}:otel_memory:free {{ if (!@live[arg0]) {{ @unknown = count(); }} delete(@live[arg0]); }}
interval:ms:200 {{ printf("attached\\n"); }}
END {{ clear(@live); }}
"""


def figure(text, name):
    found = [line.split()[-1] for line in text.splitlines() if line.startswith(f"@{name}:")]
    return int(found[0]) if found else 0


def main():
    program, library = sys.argv[1:]
    if shutil.which("bpftrace") is None or os.geteuid() != 0:
        print("bpftrace is missing, or this is not root")
        return SKIPPED
    # Without free memory that stays, large blocks get mappings of their own each time.
    options = {"TARN_PROFILE": "4K", "TARN_LARGE_CACHE": "0", "LD_PRELOAD": library}
    traced = subprocess.Popen([program], stdin=subprocess.PIPE, env=dict(os.environ, **options))
    tracer = subprocess.Popen(["bpftrace", "-p", str(traced.pid), "-e", SCRIPT.format(library)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, BPFTRACE_MAP_KEYS_MAX="65536"))
    text = ""
    try:
        # The interval's line comes when all probes are attached, as bpftrace prints it afterwards.
        for line in tracer.stdout:
            text += line
            if line == "attached\n":
                break
        else:
            print(f"bpftrace cannot trace here:\n{text}")
            return SKIPPED
        traced.communicate(b"\n", timeout=90)
        tracer.send_signal(signal.SIGINT)
        text = tracer.communicate(timeout=20)[0]
    finally:
        traced.kill()
        tracer.kill()
    allocated, twice, unknown = (figure(text, name) for name in ("allocated", "twice", "unknown"))
    print(f"{allocated} samples; {twice} of an address before its last one was freed, {unknown} frees of no sample")
    return 0 if traced.returncode == 0 and allocated > 1000 and twice == 0 and unknown == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
