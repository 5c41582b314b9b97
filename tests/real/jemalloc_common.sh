# SPDX-License-Identifier: MIT
# jemalloc_common: for tests of programs that are linked with jemalloc. They find tarn under jemalloc's file name; the
# library of these tests is libtarn-jemalloc.so.2.
. "$(dirname "$0")/common.sh"

mkdir -p "$work/link"
ln -s "$TARN_LIB" "$work/link/libjemalloc.so.2"
how=("LD_LIBRARY_PATH=$work/link") loaded_as=$work/link/libjemalloc.so.2

# as_jemalloc COMMAND…: runs the program, unchanged, with tarn instead of jemalloc.
as_jemalloc() { env "${how[@]}" "$@"; }

# asks_for_jemalloc COMMAND: skips the test if this build of the program is linked with another malloc.
asks_for_jemalloc() {
  ldd "$(command -v "$1")" 2>/dev/null | grep -F libjemalloc.so.2 >/dev/null || skip "$1 is not linked with libjemalloc.so.2 here"
}

# require_only_tarn PID: tarn is mapped there, and jemalloc is not.
require_only_tarn() {
  require_mapped "$1"
  ! grep -F jemalloc.so "/proc/$1/maps" | grep -qvF "$TARN_LIB" || fail "jemalloc is mapped too in process $1"
}

# run LIMIT_SECONDS PROGRAM ARG…: with jemalloc or tarn, as $way says; its output goes to log.$way. The test ends if it fails.
run() {
  local as=without
  [ "$way" = tarn ] && as=with
  $as "$@" >"log.$way" 2>&1 || fail "$2 fails on $way: $(tail -n 1 "log.$way")"
}
