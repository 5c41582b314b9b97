# SPDX-License-Identifier: MIT
# Messages, and long steps that show how far they are. Sourced by ./dev, from the repository's root.
# shellcheck shell=bash

# fail STATUS MESSAGE WHAT-TO-DO: the one way in which ./dev gives up.
fail() {
  printf '\n%s\n  %s\n' "dev: $2" "$3" >&2
  exit "$1"
}

fail_usage() {
  fail 2 "$1" "See: ./dev help"
}

# Seconds since ./dev began, as minutes and seconds: what every line of a step begins with.
step_clock() {
  printf '[%02d:%02d]' $((SECONDS / 60)) $((SECONDS % 60))
}

# step TITLE LOG COMMAND…: runs the command with its output in the file LOG, and shows TITLE with the newest
# count of that output (ninja's "[3/40]", ctest's "3/40 Test"). Returns the command's status; after a failure
# the useful end of the output has been shown.
step() {
  local title=$1 log=$2 started=$SECONDS shown=$SECONDS status=0 count
  shift 2
  mkdir -p "${log%/*}"
  "$@" >"$log" 2>&1 </dev/null &
  local pid=$!
  trap step_interrupted INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    if [ -t 1 ] || [ $((SECONDS - shown)) -ge 30 ]; then
      shown=$SECONDS
      count=$(step_count "$log")
      [ ! -t 1 ] || printf '\r\033[K'
      printf '%s %s %s(%d s so far%s)' "$(step_clock)" "$title" "${count:+$count }" $((SECONDS - started)) \
        "$(step_rest "$count" $((SECONDS - started)))"
      [ -t 1 ] || printf '\n'
    fi
    sleep 0.2
  done
  wait "$pid" || status=$?
  trap - INT TERM
  [ ! -t 1 ] || printf '\r\033[K'
  if [ "$status" -eq 0 ]; then
    printf '%s %s: done in %d s\n' "$(step_clock)" "$title" $((SECONDS - started))
  else
    printf '%s %s: FAILED after %d s\n' "$(step_clock)" "$title" $((SECONDS - started))
    step_failure "$log"
  fi
  return "$status"
}

# Ends step's command, and ./dev. A function, as bash may read a trap's text in the middle of a command substitution, and then
# finds no end of it.
step_interrupted() {
  kill "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  printf '\n'
  exit 130
}

# step_rest COUNT SECONDS: how long yet, if the rest goes as fast as what is done: a tenth of it, at least.
step_rest() {
  local done=${1%/*} all=${1#*/}
  if [ -n "$1" ] && [ "$done" -gt 0 ] && [ $((done * 10)) -ge "$all" ]; then
    printf ', about %d s more' $(($2 * (all - done) / done))
  fi
}

step_count() {
  tail -c 4096 "$1" 2>/dev/null | tr '\r' '\n' |
    sed -nE 's/^ *\[([0-9]+\/[0-9]+)\].*/\1/p; s/^ *([0-9]+\/[0-9]+) Test .*/\1/p' | tail -n 1
}

# What a reader of a failed step needs: the output of each test that failed, at most 60 lines of each; or else from the
# first failure on at most 80 lines. And where the rest is.
step_failure() {
  if grep -qE "$failed_test" "$1"; then
    awk -v failed="$failed_test" '
      $0 ~ failed { lines = 60; print; next }
      /^ +Start +[0-9]+: / || / Test +#[0-9]+: / || /% tests passed/ { lines = 0 }
      lines > 0 { --lines; print }' "$1"
  else
    local from
    from=$(grep -nEm 1 '^FAILED:|^CMake Error|error:' "$1" | cut -d: -f1)
    if [ -n "$from" ]; then
      tail -n "+$from" "$1" | head -n 80
    else
      tail -n 80 "$1"
    fi
  fi | sed 's/^/  | /'
  printf '  (the whole output is in %s)\n' "$1"
}
failed_test='[*][*][*](Failed|Timeout|Exception|Not Run)'
