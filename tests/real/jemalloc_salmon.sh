#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# salmon, which counts the molecules of RNA behind the reads of a sequencer, runs unchanged on libtarn-jemalloc: the index has the
# same contents as on jemalloc, and every transcript the same count.
. "$(dirname "$0")/jemalloc_common.sh"
need salmon salmon
need python3 python3
asks_for_jemalloc salmon

transcripts=400 reads=20000
[ "$long" = 1 ] && transcripts=3000 reads=300000
python3 - $transcripts $reads <<'CODE'
import random
import sys

random.seed(7)
transcripts, reads = int(sys.argv[1]), int(sys.argv[2])
texts = ["".join(random.choices("ACGT", k=random.randrange(400, 3000))) for _ in range(transcripts)]
with open("transcripts.fa", "w", encoding="ascii") as out:
    for i, text in enumerate(texts):
        out.write(f">t{i}\n{text}\n")
with open("reads.fa", "w", encoding="ascii") as out:
    for i in range(reads):
        text = random.choice(texts)
        at = random.randrange(len(text) - 100)
        out.write(f">r{i}\n{text[at:at + 100]}\n")
CODE
for way in jemalloc tarn; do
  run 900 salmon index -t transcripts.fa -i "index.$way" -k 31 -p 2
  run 900 salmon quant -i "index.$way" -l A -r reads.fa -p 1 -o "counts.$way"
  sort "counts.$way/quant.sf" >"sorted.$way"
done
require_loaded salmon
awk -v reads=$reads '{ sum += $5 } END { exit sum < reads / 2 }' sorted.jemalloc || fail "salmon finds less than half of the reads"
compare "the counts" sorted.jemalloc sorted.tarn
same "salmon: $reads reads of $transcripts transcripts"
