#!/bin/sh
# SPDX-License-Identifier: MIT
# fuzz.sh SECONDS FUZZER CORPUS [CMAKE BUILD TARGET]: runs the fuzzer on its known inputs (CORPUS: one per line, in
# base64), and then for SECONDS on new ones. With the last three arguments the fuzzer is built first. An input that
# fails is printed in base64, as a line to add to CORPUS.
#
# Environment: FUZZ_SETTINGS: a file; the environment variables on each of its lines apply to an equal part of the time,
# of at least five seconds. FUZZ_MEGABYTES (2560): the memory limit. FUZZ_MOST_BYTES (2000): the longest input.
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

# run ARGUMENT...: runs the fuzzer; ends the script if an input fails or takes a minute.
run() {
  # shellcheck disable=SC2086 # $setting may be several variables
  if env ${setting:-} "$fuzzer" "$@" -rss_limit_mb="${FUZZ_MEGABYTES:-2560}" -timeout=60 "$found/known"; then return; fi
  for input in crash-* timeout-* oom-*; do
    if [ -f "$input" ]; then echo "an input that fails, with '${setting:-}': $(base64 -w0 "$input")"; fi
  done
  exit 1
}

run -runs=0 # the known inputs only
slices=$(wc -l <settings)
if [ $((seconds / 5)) -lt "$slices" ]; then slices=$(((seconds + 4) / 5)); fi
head -n "$slices" settings >used
while read -r setting; do
  run -max_total_time=$((seconds / slices)) -len_control=0 -max_len="${FUZZ_MOST_BYTES:-2000}" -print_final_stats=1 </dev/null
done <used
