#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# abi_test.py fails when a structure or a function of the C ABI changes, and passes new functions: shown with libraries made of
# the real headers and of changed ones. Usage: self_test.sh HEADERS SCRATCH CC
set -eu
headers=$1 scratch=$2 cc=$3
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v abidiff >/dev/null || ! command -v abidw >/dev/null; then
  echo "skipped: abidiff or abidw is missing (Debian package abigail-tools)"
  exit 77
fi
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"
cp "$here/abi_test.py" .
cp -r "$headers" include
cat >library.c <<'TEXT'
#include <tarn/malloc.h>
void tarn_get_stats(tarn_stats* out) { out->version = 2; }
int tarn_option_at(size_t index, tarn_option* out) { return out == 0 ? (int)index : 0; }
void tarn_visit_pinned(void (*visit)(void*, const tarn_pinned*), void* context) { visit(context, 0); }
void malloc_stats(void) {}
TEXT
compare() {
  "$cc" -shared -fPIC -g -Iinclude library.c -o libtarn.so.1
  ./abi_test.py libtarn.so.1 include here "$@" >output
}
# expect STATUS SED-SCRIPT FILE: the status of the comparison after that change, which is undone.
expect() {
  local status=0
  cp "$3" kept
  sed -i "$2" "$3"
  ! cmp -s kept "$3" || { echo "the header no longer has what this test changes: $2"; exit 1; }
  compare || status=$?
  cp kept "$3"
  [ $status -eq "$1" ] || { echo "status $status instead of $1 after the change: $2"; cat output; exit 1; }
}
compare --write
compare
header=include/tarn/malloc.h
expect 1 's/^  uint64_t returned; /  uint64_t inserted;\n&/' $header
expect 1 's/^  uint64_t returned; /  uint32_t returned; /' $header
expect 1 's/^} tarn_option;/  const char* unit;\n&/' $header
expect 1 '/tarn_visit_pinned/d' library.c
expect 1 's/^} tarn_stats;/  uint64_t appended;\n&/' $header
expect 1 '/malloc_stats/d' library.c
expect 0 's/^void malloc_stats(void)/void malloc_stats(int more)/' library.c
expect 0 '$a void tarn_added(void) {}' library.c
echo "changes are found, and new functions are none"
