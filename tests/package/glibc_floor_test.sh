#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program and a library linked with TARN_GLIBC_FLOOR's stubs need no newer glibc than that, and work: constructors run,
# the environment is there, exceptions, threads and files work.
# Usage: glibc_floor_test.sh SOURCE SCRATCH CC CXX
set -eu
source=$1 scratch=$2 cc=$3 cxx=$4
floor=2.31
rm -rf "$scratch"
mkdir -p "$scratch/out"
python3 "$source/cmake/glibc_floor/stubs.py" $floor "$scratch/stubs" "$cc"
link=("-L$scratch/stubs" -Wl,--push-state,--no-as-needed -lpthread -ldl -Wl,--pop-state -static-libstdc++ -Wl,--allow-shlib-undefined)
"$cxx" -std=c++20 -O1 "$source/tests/package/floor_program.cpp" -o "$scratch/out/program" "${link[@]}"
# The same without the stubs: on this system it needs more, or else the test shows nothing.
mkdir "$scratch/plain"
"$cxx" -std=c++20 -O1 "$source/tests/package/floor_program.cpp" -o "$scratch/plain/program" -static-libstdc++ -ldl
if python3 "$source/packaging/tar/check_glibc.py" $floor "$scratch/plain" >/dev/null; then
  echo "skipped: this system's own glibc is not newer than $floor"
  exit 77
fi
python3 "$source/packaging/tar/check_glibc.py" $floor "$scratch/out"
FLOOR_TEST=set "$scratch/out/program"
# An unknown version is refused in one line.
if python3 "$source/cmake/glibc_floor/stubs.py" nonsense "$scratch/none" "$cc" 2>"$scratch/refusal"; then
  echo "stubs.py accepts the version 'nonsense'"
  exit 1
fi
grep -q '^usage: ' "$scratch/refusal"
