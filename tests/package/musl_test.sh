#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A fully static C program of another C library, musl: libtarn.a replaces its malloc. `tarn run` refuses such a program, and
# a dynamic one of musl, with the reason.
# Usage: musl_test.sh LIBTARN_A INCLUDE TARN SCRATCH
set -eu
archive=$1 include=$2 tarn=$3 scratch=$4
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v musl-gcc >/dev/null; then
  echo "skipped: musl-gcc is missing (Debian package musl-tools)"
  exit 77
fi
mkdir -p "$scratch"
link=(-Wl,--undefined=malloc,--undefined=tarn_program_start "$archive")
musl-gcc -std=c11 -Wall -Wextra -Werror -O1 -static -I"$include" "$here/static_program.c" -o "$scratch/with_tarn" "${link[@]}"
musl-gcc -std=c11 -Wall -Wextra -Werror -O1 -static "$here/static_program.c" -DWITHOUT_TARN -o "$scratch/without_tarn"
musl-gcc -std=c11 -Wall -Wextra -Werror -O1 -static -I"$include" "$here/static_program.c" -DALLOCATING_LIBC \
  -o "$scratch/with_allocating_libc" -Wl,--wrap=pthread_atfork "${link[@]}"
readelf -p .comment "$scratch/with_tarn" >/dev/null
if readelf -W -s "$scratch/with_tarn" | grep -q ' gnu_get_libc_version$'; then
  echo "the program contains glibc, not musl"
  exit 1
fi
"$scratch/with_tarn"
"$scratch/with_allocating_libc"
"$scratch/without_tarn"

# refused PROGRAM WORDS: tarn run says why, and does not start it.
refused() {
  local status=0
  "$tarn" run -- "$1" >"$scratch/refusal" 2>&1 || status=$?
  if [ $status -ne 125 ] || ! grep -q "$2" "$scratch/refusal"; then
    echo "tarn run -- $1: status $status instead of 125 and a line with '$2':"
    cat "$scratch/refusal"
    exit 1
  fi
}
refused "$scratch/with_tarn" "is statically linked"
musl-gcc -DWITHOUT_TARN "$here/static_program.c" -o "$scratch/dynamic"
refused "$scratch/dynamic" "is linked with musl"
echo "a static program of musl works with libtarn.a, and tarn run says why it cannot preload into programs of musl"
