#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# python3: a program gives the same output, with Python's own allocator of small objects and, by PYTHONMALLOC=malloc,
# with every object from malloc.
. "$(dirname "$0")/common.sh"
python=/usr/bin/python3
[ -x $python ] || skip "no $python: install the Debian package python3"

rounds=2
[ "$long" = 1 ] && rounds=30
cat >work.py <<'CODE'
import collections, gc, hashlib, json, os, pickle, random, re, sys, threading, zlib
def work(seed, rounds, results):
    rng, digest = random.Random(seed), hashlib.sha256()
    for _ in range(rounds):
        table = collections.defaultdict(list)
        for i in range(20000):
            table["k%d" % rng.randrange(3000)].append((i, "v" * rng.randrange(60)))
        text = json.dumps(table, sort_keys=True)
        assert json.loads(text).keys() == table.keys()
        digest.update(zlib.compress(pickle.dumps(sorted(table.items()))))
        digest.update(re.sub(r"(\d+), \"(v*)\"", r"\2\1", text).encode())
        ring = [[] for _ in range(5000)]
        for i, one in enumerate(ring): one.append(ring[(i * 7) % 5000])
        del ring
        digest.update(b"%d" % (gc.collect() > 0))
        big = bytearray()
        for i in range(300): big.extend(bytes([i % 256]) * 10000)
        digest.update(big)
    results[seed] = digest.hexdigest()
results = {}
threads = [threading.Thread(target=work, args=(seed, int(sys.argv[1]), results)) for seed in range(3)]
for one in threads: one.start()
for one in threads: one.join()
child = os.fork()
if child == 0:
    work(9, 1, results); print(results[9], flush=True); os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(sorted(results.items()))
CODE
export PYTHONHASHSEED=1
for allocator in pymalloc malloc; do
  export PYTHONMALLOC=$allocator
  without 600 $python work.py $rounds >without.txt || fail "python3 fails without tarn"
  with 600 $python work.py $rounds >with.txt || fail "python3 fails with tarn, PYTHONMALLOC=$allocator (status $?)"
  compare "output with PYTHONMALLOC=$allocator" without.txt with.txt
done
require_loaded python3
same "python3, PYTHONMALLOC=pymalloc and malloc"
