# SPDX-License-Identifier: MIT
"""A JSON workload for ./dev run: builds rows as a web service does, writes, reads, sorts and groups them.

Run it with PYTHONMALLOC=malloc, so that python's objects come from malloc and not from its own allocator.
The printed checksum is the same in every run.
"""

import json
import random
import zlib

ROWS = 12_000
ROUNDS = 3


def make_row(number, rng):
    return {
        "id": number,
        "name": f"item-{rng.randrange(10**6):06d}",
        "tags": [f"t{rng.randrange(200)}" for _ in range(rng.randrange(1, 6))],
        "price": round(rng.random() * 1000, 2),
        "owner": {"id": rng.randrange(500), "note": "x" * rng.randrange(4, 120)},
    }


def group_by_owner(rows):
    groups = {}
    for row in rows:
        groups.setdefault(row["owner"]["id"], []).append(row)
    return {owner: sorted(found, key=lambda row: row["price"]) for owner, found in groups.items()}


def main():
    rng = random.Random(7)
    checksum = 0
    for _ in range(ROUNDS):
        rows = [make_row(number, rng) for number in range(ROWS)]
        text = json.dumps(rows)
        groups = group_by_owner(json.loads(text))
        summary = json.dumps({owner: [row["name"] for row in found] for owner, found in sorted(groups.items())})
        checksum = zlib.crc32(summary.encode(), checksum)
    print(f"checksum {checksum:08x}")


if __name__ == "__main__":
    main()
