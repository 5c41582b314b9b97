# SPDX-License-Identifier: MIT
"""Checks the static tracepoints of a library: provider, name, number and form of the arguments, and semaphores, as readelf
reads them from .note.stapsdt. The contract of otel_memory is OpenTelemetry's.

Usage: check_probes.py LIBRARY
"""
import re
import subprocess
import sys

# (provider, name): (arguments, has a semaphore)
WANTED = {
    ("otel_memory", "alloc"): (3, True),
    ("otel_memory", "free"): (1, True),
    ("tarn", "refill"): (2, False),
    ("tarn", "span_made"): (3, False),
    ("tarn", "purge"): (2, False),
    ("tarn", "lock_wait"): (1, False),
}
NOTE = re.compile(r"Provider: (\S+)\s+Name: (\S+)\s+Location: (\S+), Base: (\S+), Semaphore: (\S+)\s+Arguments: (.*)")


def main():
    library = sys.argv[1]
    text = subprocess.run(["readelf", "-nW", library], check=True, capture_output=True, text=True).stdout
    found, failed = {}, False
    for provider, name, place, base, semaphore, arguments in NOTE.findall(text):
        found.setdefault((provider, name), 0)
        found[provider, name] += 1
        if (provider, name) not in WANTED:
            print(f"{library}: unknown probe {provider}:{name}")
            failed = True
            continue
        count, has_semaphore = WANTED[provider, name]
        words = arguments.split()
        if len(words) != count or not all(re.fullmatch(r"8@(%r\w+|x\d+|[\w$%\[\]#(),+-]+)", word) for word in words):
            print(f"{library}: {provider}:{name} has the arguments {arguments!r}, not {count} of 8 bytes")
            failed = True
        if (int(semaphore, 16) != 0) != has_semaphore or int(place, 16) == 0 or int(base, 16) == 0:
            print(f"{library}: {provider}:{name} at {place}, base {base}, semaphore {semaphore}")
            failed = True
    for missing in sorted(WANTED.keys() - found.keys()):
        print(f"{library}: no probe {':'.join(missing)}")
        failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
