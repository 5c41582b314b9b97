# SPDX-License-Identifier: MIT
"""Threads and processes of Python with objects from malloc. Prints a sum."""
import json
import sys
import threading
import zlib


def fill_cart(seed, sums):
    rows = [{"id": seed * 100 + each, "text": "t" * (each % 300), "more": list(range(each % 20))} for each in range(150)]
    sums.append(zlib.crc32(json.dumps(rows).encode()) & 0xFFFF)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    sums = []
    for round_number in range(rounds):
        threads = [threading.Thread(target=fill_cart, args=(round_number * 4 + each, sums)) for each in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    print(sum(sums))


main()
