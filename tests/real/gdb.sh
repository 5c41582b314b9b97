#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# gdb prints the same about a core file, and can debug a program that has tarn preloaded.
. "$(dirname "$0")/common.sh"
need gdb gdb
need g++ g++

cat >crash.cpp <<'CODE'
#include <map>
#include <string>
#include <vector>
struct record { int number; std::string name; std::vector<int> list; };
static int deep(std::map<int, record>& all, int level) {
  record own{level, std::string(static_cast<unsigned>(level) * 7 + 1, 'x'), {level, level + 1}};
  all[level] = own;
  if (level == 0) __builtin_trap();
  return deep(all, level - 1) + own.number;
}
int main() { std::map<int, record> all; return deep(all, 12); }
CODE
g++ -g -O0 crash.cpp -o crash || fail "cannot compile the program"
gdb -nx -batch -ex run -ex 'generate-core-file core' ./crash >make.txt 2>&1
[ -s core ] || skip "gdb cannot make a core file here (is ptrace allowed?): $(tail -n 1 make.txt)"
questions=(-ex 'bt full' -ex 'info threads' -ex 'frame 5' -ex 'info locals' -ex 'ptype all'
  -ex 'info types record' -ex 'disassemble main' -ex 'x/64xb $sp')
without 120 gdb -nx -batch "${questions[@]}" ./crash core >without.txt 2>&1 || fail "gdb fails without tarn"
with 120 gdb -nx -batch "${questions[@]}" ./crash core >with.txt 2>&1 || fail "gdb fails with tarn (status $?)"
require_loaded gdb
# Thread ids differ from run to run.
sed -i -E 's/LWP [0-9]+/LWP/' without.txt with.txt
grep -q 'deep (all=' without.txt || fail "gdb found no backtrace in the core"
compare "what gdb says" without.txt with.txt
gdb -nx -batch -ex "set environment LD_PRELOAD=$TARN_LIB" -ex run -ex 'info sharedlibrary' -ex bt ./crash \
  >inside.txt 2>&1
grep -qF "$TARN_LIB" inside.txt || fail "the debugged program did not load $(basename "$TARN_LIB")"
[ "$(grep -c 'deep (all=' inside.txt)" -ge 13 ] || fail "no full backtrace of a program that runs on tarn"
# gdb puts the string into a block of malloc, whose type it must know. On processors with more state than it knows of, gdb calls
# no function of any program.
call_with() {
  gdb -nx -batch "$@" -ex 'break deep' -ex run -ex 'print (long)strlen("abc")' -ex kill ./crash >call.txt 2>&1
  grep -qF '$1 = 3' call.txt
}
if call_with; then
  call_with -ex "set environment LD_PRELOAD=$TARN_LIB" ||
    fail "gdb cannot call a function with a string: $(tail -n 1 call.txt)"
fi
same "gdb on a core file, $(wc -l <with.txt) lines"
