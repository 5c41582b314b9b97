#!/bin/sh
# SPDX-License-Identifier: MIT
# fuzz.sh CMAKE BUILD FUZZER MAKE_PROFILE [SECONDS]: builds the fuzzer and lets it run, beginning with whole files.
set -eu
"$1" --build "$2" --target profiler_read_fuzzer
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
for sites in 1 8 40; do
  "$4" "$corpus/file" 50 "$sites"
  { printf '\000'; cat "$corpus/file"; } >"$corpus/whole-$sites"
  rm "$corpus/file"
done
"$3" -max_total_time="${5:-120}" -rss_limit_mb=2560 -timeout=10 -max_len=65536 -print_final_stats=1 "$corpus"
