#!/bin/sh
# SPDX-License-Identifier: MIT
# fuzz.sh SECONDS FUZZER CORPUS [CMAKE BUILD TARGET]: runs the fuzzer on what it has found before (CORPUS: one input per
# line, in base64), and then for so long on new inputs. With the last three arguments it is built first. An input that fails
# is told in base64: a line for CORPUS.
set -eu
seconds=$1 fuzzer=$2 corpus=$3
if [ $# -ge 6 ]; then "$4" --build "$5" --target "$6"; fi
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
mkdir "$found/known"
number=0
while read -r line; do
  number=$((number + 1))
  printf '%s' "$line" | base64 -d >"$found/known/$number"
done <"$corpus"
cd "$found"
# The first run ends when all known inputs have run.
for arguments in -runs=0 "-max_total_time=$seconds -len_control=0 -max_len=2000 -print_final_stats=1"; do
  # shellcheck disable=SC2086 # several arguments
  if ! "$fuzzer" $arguments -rss_limit_mb=2560 -timeout=60 "$found/known"; then
    for input in crash-* timeout-* oom-*; do
      if [ -f "$input" ]; then echo "an input that fails: $(base64 -w0 "$input")"; fi
    done
    exit 1
  fi
done
