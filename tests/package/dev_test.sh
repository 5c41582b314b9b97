#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What ./dev does before and after a build: it refuses wrong words, names what is missing, and starts a program in the folder
# from which it was called. It runs on a copy whose tools are stand-ins, so nothing is built or installed.
# Usage: dev_test.sh SOURCE SCRATCH
set -eu
source=$1 scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch/a clone/tools" "$scratch/bin" "$scratch/elsewhere"
cp "$source/dev" "$scratch/a clone/"
cp -r "$source/tools/dev" "$scratch/a clone/tools/"
stand_in() { printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod +x "$1"; }
# shellcheck disable=SC2016 # for the stand-ins' shells
{
  stand_in "$scratch/bin/cmake" 'case $1 in --version) echo "cmake version 3.25.1" ;; --install) cp -a "$INSTALLS/." "$4" ;; esac'
  stand_in "$scratch/bin/strip" ''
  stand_in "$scratch/bin/apt-get" 'exit 1'
  stand_in "$scratch/bin/apt-cache" 'exit 1'
  stand_in "$scratch/bin/sudo" 'exit 1'
  stand_in "$scratch/bin/ninja" ''
  mkdir -p "$scratch/a clone/build/release/bin"
  stand_in "$scratch/a clone/build/release/bin/tarn-compare" 'printf "%s\n" "$PWD" "$*"'
}
# The compiler that answers whether a header is there.
export PATH=$scratch/bin:$PATH CXX=true

fail() { echo "$*"; exit 1; }
# answers STATUS TEXT ARG…: ./dev ARG… ends with STATUS and prints TEXT.
answers() {
  local expected=$1 text=$2 status=0
  shift 2
  "$scratch/a clone/dev" "$@" >"$scratch/output" 2>&1 || status=$?
  [ "$status" -eq "$expected" ] || fail "./dev $*: status $status, not $expected: $(cat "$scratch/output")"
  grep -qF -- "$text" "$scratch/output" || fail "./dev $*: '$text' is not in: $(cat "$scratch/output")"
}

cd "$scratch/elsewhere"
answers 0 './dev COMMAND'
answers 2 "unknown command 'biuld'" biuld
answers 2 "there is no preset 'relese'; there are: quick dev release" build relese
answers 2 "build takes one preset" build dev release
answers 2 "test takes --full, --long or nothing" test --lon
answers 2 "release does not know '--chek'" release --chek
answers 2 "there is no packaging/rpm; there are:" release rpm
stand_in "$scratch/bin/gpg" '' # has every key; the copy is no clone, and has no commit
GIT_DIR=$scratch/none answers 2 "a signed release says from which commit it is made" release --key some
answers 2 "site takes no argument" site here
answers 2 "there are no artefacts in build/artefacts" release --check
# PROGRAM is one of the folder of the call, and its arguments arrive as they are.
answers 0 "-r 3 -- ./program a b" run -r 3 -- ./program 'a b'
grep -qxF "$scratch/elsewhere" "$scratch/output" || fail "./dev run -- ./program starts it in $(head -n 1 "$scratch/output")"
# CXX may have a launcher before the compiler, and options behind it.
CXX='ccache true -m64' answers 0 "-- build/workloads/order_service" run
answers 2 "run takes options first" run ls /
stand_in "$scratch/a clone/build/release/bin/tarn-compare" 'exit 2'
answers 2 "Configuring release" run --bogus
! grep -qF "the rest of tarn" "$scratch/output" || fail "./dev run builds the rest after wrong usage"
# Installing, again with other files, and removing: nobody else's file goes, and nothing remains.
export INSTALLS=$scratch/installs prefix=$scratch/prefix
mkdir -p "$INSTALLS/bin" "$INSTALLS/lib/tarn" "$prefix/lib"
echo 1 | tee "$INSTALLS/bin/tarn" "$INSTALLS/lib/libtarn.so.1" "$INSTALLS/lib/tarn/gone" "$prefix/lib/other" >/dev/null
ln -s libtarn.so.1 "$INSTALLS/lib/libtarn.so"
chmod +x "$INSTALLS/bin/tarn"
before=$(cd "$prefix" && find . | sort)
unset LD_LIBRARY_PATH CPATH LIBRARY_PATH
answers 0 "export LD_LIBRARY_PATH=$prefix/lib " install --prefix "$prefix"
grep -qF "export CPATH=$prefix/include LIBRARY_PATH=$prefix/lib " "$scratch/output" || fail "install does not say what compilers lack"
grep -qF "export PATH=$prefix/bin:" "$scratch/output" || fail "install does not say that PATH lacks $prefix/bin"
PATH=$PATH:$prefix/bin LD_LIBRARY_PATH=$prefix/lib CPATH=$prefix/include LIBRARY_PATH=/other:$prefix/lib \
  answers 0 "./dev uninstall --prefix $prefix removes it" install "--prefix=$prefix"
! grep -qE 'export (PATH|LD_|CPATH)' "$scratch/output" || fail "install asks for what is there: $(cat "$scratch/output")"
[ "$(readlink "$prefix/lib/libtarn.so")" = libtarn.so.1 ] && [ -e "$prefix/lib/tarn/gone" ] || fail "not all was installed"
exec 8<"$prefix/lib/libtarn.so.1" # as a program that runs
rm "$INSTALLS/lib/tarn/gone"
echo 2 >"$INSTALLS/lib/libtarn.so.1"
CPATH=/other/include LD_LIBRARY_PATH=/other answers 0 "Installed in $prefix" install --prefix ../prefix
for more in "LD_LIBRARY_PATH=$prefix/lib:\$LD_LIBRARY_PATH " "CPATH=$prefix/include:\$CPATH LIBRARY_PATH=$prefix/lib "; do
  grep -qF "export $more" "$scratch/output" || fail "install does not keep what is set: $more"
done
[ "$(cat <&8) $(cat "$prefix/lib/libtarn.so.1")" = "1 2" ] || fail "an installation changes the file that a program has mapped"
[ ! -e "$prefix/lib/tarn/gone" ] || fail "what an installation no longer has remains"
mkdir -p "$scratch/state/tarn" && touch "$scratch/state/tarn/key"
XDG_STATE_HOME=$scratch/state answers 0 "$scratch/state/tarn/key" uninstall --prefix "$prefix"
grep -qF "Removed from $prefix." "$scratch/output" || fail "uninstall does not say from where"
[ "$(cd "$prefix" && find . | sort)" = "$before" ] || fail "uninstall leaves: $(cd "$prefix" && find . | sort)"
answers 2 "./dev install has put nothing into $prefix" uninstall --prefix "$prefix"
answers 2 "install takes --prefix FOLDER or nothing" install "$prefix"
answers 2 "tarn cannot lie in" install --prefix '/srv/a b'
answers 2 "is no folder" install --prefix "$prefix/lib/other"
# A user without root and sudo: nothing is built first.
if [ "$(id -u)" -ne 0 ]; then
  answers 2 "this user may not write into /usr/local" install
fi
# A failed test that measures runs again, alone, and that result counts; any other test fails for good.
mkdir -p "$scratch/a clone/build/few" "$scratch/a clone/tests"
echo 'again cli.*' >"$scratch/a clone/tests/tiers.txt"
few_tests() { # NAME…: each of these tests passes at its second run only
  local name
  rm -f "$scratch"/ran.*
  for name in "$@"; do
    echo "add_test(\"$name\" sh -c \"test -e '$scratch/ran.$name' || { touch '$scratch/ran.$name'; exit 1; }\")"
  done >"$scratch/a clone/build/few/CTestTestfile.cmake"
  echo 'add_test(unit.good true)' >>"$scratch/a clone/build/few/CTestTestfile.cmake"
  (
    cd "$scratch/a clone"
    # shellcheck source=/dev/null
    for part in steps build commands; do . "tools/dev/$part.sh"; done
    run_tests few
  ) >"$scratch/output" 2>&1
}
few_tests cli.first || fail "a test that passes alone is red: $(cat "$scratch/output")"
grep -qxF "100% tests passed, 0 tests failed out of 2 (1 failed at first, and passed alone)" "$scratch/output" ||
  fail "a second run is not reported: $(cat "$scratch/output")"
! few_tests unit.first cli.first || fail "a failed unit test is green: $(cat "$scratch/output")"
grep -qxF "66% tests passed, 1 tests failed out of 3 (1 failed at first, and passed alone)" "$scratch/output" ||
  fail "two failed tests are not told apart: $(cat "$scratch/output")"
# What is missing is named, with the command that installs it.
CXX=false answers 2 "missing: libcli11-dev libfmt-dev" build
echo "./dev answers as it should"
