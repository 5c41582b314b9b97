#!/bin/sh
# SPDX-License-Identifier: MIT
# Tries an installed tarn on a system that has nothing else of tarn: the command, preloading, and programs in C linked in each
# way. Ends with status 1 and one line at the first thing that does not work.
# Usage: try_installed.sh TARN LIBRARY-FOLDER [cc]     LIBRARY-FOLDER: with libtarn.so.1; with "cc" programs are compiled
set -u
tarn=$1 libraries=$2 compile=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export XDG_STATE_HOME="$work" # the user's own key, which no removal takes

fail() {
  echo "does not work: $*"
  [ ! -s "$work/log" ] || cat "$work/log"
  exit 1
}
# works TITLE COMMAND…: its output goes into the file log.
works() {
  title=$1
  shift
  "$@" >log 2>&1 || fail "$title: status $? of: $*"
}
has() { grep -q -- "$1" log || fail "$title: its output lacks '$1'"; }

works "the version" "$tarn" --version
works "tarn run" "$tarn" run -- env
has 'LD_PRELOAD=.*libtarn\.so'
works "tarn run on a larger program" "$tarn" run --stats -- sh -c 'ls -lR /usr/share | sort | tail -n 1'
has 'returned  .* by 3 processes'
works "tarn doctor --options" "$tarn" doctor --options
works "tarn profile" "$tarn" profile -o sorted.prof -- sort /etc/passwd /etc/group
works "tarn show" "$tarn" show sorted.prof
works "tarn report" "$tarn" report sorted.prof -o sorted.html
[ -s sorted.html ] || fail "tarn report: no sorted.html"
printf '{"tarn_plan": 1, "sites": [{"use": "pool", "size": 64, "frames": [{"module": "/bin/true", "offset": "0x1"}]}]}' >plan
works "tarn run --plan" "$tarn" run --plan plan -- true
for library in libtarn.so.1 libtarn-hardened.so.1; do
  works "preloading $library" env LD_PRELOAD="$libraries/$library" TARN_STATS=stderr ls /usr/bin
  has in_use
done

[ "$compile" = cc ] || exit 0
cat >program.c <<'TEXT'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tarn/malloc.h>

static void* work(void* unused) {
  for (int i = 0; i < 10000; ++i) free(malloc(16 + (size_t)i % 500));
  return unused;
}

int main(int count, char** words) {
  (void)words;
  tarn_stats before, after;
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0) return 1;
  tarn_get_stats_sized(&before, sizeof before);
  char* volatile block = malloc(32 << 20);
  tarn_get_stats_sized(&after, sizeof after);
  free(block);
  void* own = tarn_malloc(100);
  tarn_free(own);
  /* With an argument the program keeps the system's malloc. */
  return (after.in_use >= before.in_use + (32 << 20)) != (count == 1);
}
TEXT
PKG_CONFIG_PATH=$libraries/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH} LD_LIBRARY_PATH=$libraries
export PKG_CONFIG_PATH LD_LIBRARY_PATH
# shellcheck disable=SC2046 # pkg-config prints several words
{
  works "compiling with the shared library" cc -pthread program.c -o shared $(pkg-config --cflags --libs tarn)
  works "a program with the shared library" ./shared
  works "compiling with the API library" cc -pthread program.c -o api $(pkg-config --cflags --libs tarn-api)
  works "a program with the API library" ./api keeps
  works "compiling a static program" cc -pthread -static program.c -o static $(pkg-config --static --cflags --libs tarn)
  works "a static program" ./static
}
"$tarn" run -- ./static >log 2>&1 && fail "tarn run accepts a static program"
title="tarn run on a static program"
has "statically linked"
