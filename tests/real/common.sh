# SPDX-License-Identifier: MIT
# common: functions for the tests of real programs. Each test runs a program without tarn and with it, and compares.
#   usage of every test: NAME.sh [PATH_OF_LIBRARY]     (or TARN_LIB=PATH; REAL_LONG=1 for the long version)
# Exit status: 0 same results, 1 not (one line says what), 77 cannot run here (one line says what is missing).
# Each test sources this file once. It makes the temporary folder $work and changes to it; at exit it ends the processes
# that were registered with `note_process`, and removes the folder.
set -u -o pipefail
export LC_ALL=C TZ=UTC

name=$(basename "$0" .sh)
TARN_LIB=${1:-${TARN_LIB:-}}
long=${REAL_LONG:-0}
started=()

fail() { echo "BROKEN: $name: $*" >&2; exit 1; }
skip() { echo "cannot run here: $name: $*"; exit 77; }

[ -n "$TARN_LIB" ] || { echo "usage: $0 PATH_OF_LIBTARN.SO" >&2; exit 2; }
given=$TARN_LIB
TARN_LIB=$(realpath -e "$given" 2>/dev/null) || { echo "$0: no such library: $given" >&2; exit 2; }
case $TARN_LIB in
  *[\ :]*) echo "$0: the loader takes no preload with blanks or colons: $given" >&2; exit 2 ;;
esac
unset LD_PRELOAD
# The library must not see these variables: it reports unknown options on standard error.
export -n TARN_LIB
unset REAL_LONG

# need COMMAND PACKAGE: skips the test if the command is missing, and names its Debian package.
need() { command -v "$1" >/dev/null 2>&1 || skip "no $1: install the Debian package $2"; }

note_process() { started+=("$1"); }

# end_process PID [SIGNAL]: sends SIGTERM or SIGNAL, waits up to 10 seconds, then sends SIGKILL.
end_process() {
  local pid=$1 i
  kill "-${2:-TERM}" "$pid" 2>/dev/null || return 0
  for ((i = 0; i < 100; ++i)); do
    kill -0 "$pid" 2>/dev/null || return 0
    [ "$(cut -d' ' -f3 "/proc/$pid/stat" 2>/dev/null)" = Z ] && break
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
}

clean_up() {
  local pid
  for pid in "${started[@]+"${started[@]}"}"; do end_process "$pid"; done
  rm -rf "$work"
}
work=$(mktemp -d "${TMPDIR:-/tmp}/tarn-real.XXXXXX") || exit 2
trap clean_up EXIT
trap 'exit 1' INT TERM HUP
cd "$work" || exit 2

# How a program gets the library, and by which path the loader finds it then.
how=("LD_PRELOAD=$TARN_LIB") loaded_as=$TARN_LIB

# with LIMIT_SECONDS COMMAND…: runs the command with tarn; the loader writes a log of loaded libraries per process.
with() {
  local limit=$1
  shift
  mkdir -p "$work/loader"
  timeout -k 5 "$limit" env LD_DEBUG=files LD_DEBUG_OUTPUT="$work/loader/log" "${how[@]}" "$@"
}
without() {
  local limit=$1
  shift
  timeout -k 5 "$limit" "$@"
}

# require_loaded PROGRAM: `with` has run a process of that name, and the loader has initialised tarn in it.
require_loaded() {
  local log
  for log in "$work"/loader/log.*; do
    grep -q "initialize program: .*$1\$" "$log" 2>/dev/null || continue
    grep -qF "calling init: $loaded_as" "$log" && return 0
  done
  fail "$(basename "$TARN_LIB") was not loaded into $1"
}

# require_mapped PID: the library is mapped in that process now.
require_mapped() {
  grep -qF "$TARN_LIB" "/proc/$1/maps" 2>/dev/null || fail "$(basename "$TARN_LIB") is not mapped in process $1"
}

# wait_until SECONDS COMMAND…: tries the command ten times a second until it succeeds.
wait_until() {
  local tries=$(($1 * 10)) i
  shift
  for ((i = 0; i < tries; ++i)); do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.1
  done
  return 1
}

# compare WHAT FILE FILE: the results without and with tarn must be equal.
compare() {
  [ -s "$2" ] || fail "$1: no result without tarn to compare with"
  cmp -s "$2" "$3" || { diff "$2" "$3" 2>&1 | head -5 >&2; fail "$1 differs with tarn"; }
}

same() { echo "same with and without $(basename "$TARN_LIB"): $*"; }
