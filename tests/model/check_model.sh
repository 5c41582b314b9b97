#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# check_model.sh MODEL holds|fails [MACRO…]
# Explores a Promela model with spin. With `holds`, every assertion must hold in every interleaving and no process may
# be stuck. With `fails`, the macros take a part of the protocol away, and spin must find an interleaving that violates
# an assertion; otherwise the model does not test that part.
# Exit status: 0 as expected, 1 not, 77 when spin or a C compiler is missing.
set -u

model=$1
expected=$2
shift 2

for tool in spin cc; do
  if ! command -v "$tool" >/dev/null; then
    echo "skipped: $tool is not installed (Debian: apt-get install spin gcc)"
    exit 77
  fi
done

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
macros=()
for macro in "$@"; do macros+=("-D$macro"); done

cp "$model" "$folder/model.pml" && cd "$folder" || exit 1
if ! spin "${macros[@]}" -a model.pml >spin.log 2>&1; then
  cat spin.log
  exit 1
fi
# A search that stops at its first error takes less time than an optimising compiler does for the program.
optimise=-O1
[ "$expected" = holds ] || optimise=-O0
if ! cc "$optimise" -w -DSAFETY -DVECTORSZ=2048 -DMEMLIM=4000 -o pan pan.c >cc.log 2>&1; then
  cat cc.log
  exit 1
fi
./pan -m200000 >pan.log 2>&1
grep -E 'pan:|errors:|states, stored|elapsed' pan.log

if grep -qE 'max search depth too small|out of memory|memory limit|Search not completed' pan.log &&
  [ "$expected" = holds ]; then
  # Spin also prints `Search not completed` if it found an error, which the lines above show.
  echo "the search did not reach every state"
  exit 1
fi
case $expected in
  holds)
    grep -q 'errors: 0' pan.log && exit 0
    spin "${macros[@]}" -t -p -g model.pml | tail -120
    echo "the protocol does not hold: see the interleaving above"
    exit 1
    ;;
  fails)
    grep -q 'assertion violated' pan.log && exit 0
    echo "with $* an assertion must be violated, and spin found none: the model does not test this part"
    exit 1
    ;;
esac
echo "usage: check_model.sh MODEL holds|fails [MACRO…]"
exit 1
