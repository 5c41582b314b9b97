#!/bin/sh
# SPDX-License-Identifier: MIT
# fuzz.sh SECONDS FUZZER CORPUS [CMAKE BUILD TARGET]: runs the fuzzer on what it has found before (CORPUS: one input per
# line, in base64), and then for so long on new inputs. With the last three arguments it is built first. An input that fails
# is told in base64: a line for CORPUS.
#
# From the environment: FUZZ_SETTINGS, a file with environment variables on each line, of which each line has a part of the
# time, of five seconds or more; FUZZ_MEGABYTES (2560), the most memory, and FUZZ_MOST_BYTES (2000), the longest input.
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
cp "${FUZZ_SETTINGS:-/dev/null}" "$found/settings"
if [ ! -s "$found/settings" ]; then echo >"$found/settings"; fi
cd "$found"

# run ARGUMENT...: the fuzzer; ends the script where an input fails, or takes a minute.
run() {
  # shellcheck disable=SC2086 # several variables
  if env ${setting:-} "$fuzzer" "$@" -rss_limit_mb="${FUZZ_MEGABYTES:-2560}" -timeout=60 "$found/known"; then return; fi
  for input in crash-* timeout-* oom-*; do
    if [ -f "$input" ]; then echo "an input that fails, with '${setting:-}': $(base64 -w0 "$input")"; fi
  done
  exit 1
}

run -runs=0 # ends when all known inputs have run
slices=$(wc -l <settings)
if [ $((seconds / 5)) -lt "$slices" ]; then slices=$(((seconds + 4) / 5)); fi
head -n "$slices" settings >used
while read -r setting; do
  run -max_total_time=$((seconds / slices)) -len_control=0 -max_len="${FUZZ_MOST_BYTES:-2000}" -print_final_stats=1 </dev/null
done <used
