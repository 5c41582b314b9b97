#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# toulbar2, a solver of constraint networks, runs unchanged on libtarn-jemalloc: it finds the same optimum, by the same number
# of nodes of its search, as on jemalloc.
. "$(dirname "$0")/jemalloc_common.sh"
need toulbar2 toulbar2
need python3 python3
asks_for_jemalloc toulbar2

variables=40
[ "$long" = 1 ] && variables=55
python3 - $variables >network.wcsp <<'CODE'
import random
import sys

random.seed(7)
variables, values = int(sys.argv[1]), 5
pairs = random.sample([(a, b) for b in range(variables) for a in range(b)], 4 * variables)
print("network", variables, values, len(pairs), 100000)
print(*[values] * variables)
for a, b in pairs:
    print(2, a, b, 0, values * values)
    for x in range(values):
        for y in range(values):
            print(x, y, random.randrange(100))
CODE
for way in jemalloc tarn; do
  run 600 toulbar2 network.wcsp -w="$work/solution.$way"
  sed -nE 's/^Optimum: ([0-9]+) in ([0-9]+) backtracks and ([0-9]+) nodes.*/\1 \2 \3/p' "log.$way" >"found.$way"
done
require_loaded toulbar2
compare "the optimum, with backtracks and nodes" found.jemalloc found.tarn
compare "the solution" solution.jemalloc solution.tarn
same "toulbar2: optimum, backtracks and nodes $(cat found.tarn)"
