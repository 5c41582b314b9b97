#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tarn's source as a part of another project: it configures without the packages that the command and the tests need,
# builds only the library that is linked, makes no warning an error, and installs nothing of its own. With --build the
# project is built and installed, too; that compiles the engine.
# Usage: subproject_test.sh CMAKE SOURCE SCRATCH CXX [--build]
set -eu
cmake=$1 source=$2 scratch=$3 cxx=$4 build=${5:-}
here=$(cd "$(dirname "$0")" && pwd)

fail() {
  echo "$*"
  exit 1
}
# configure FOLDER ARGUMENT…
configure() {
  local folder=$1
  shift
  "$cmake" -S "$here/part_of_another" -B "$folder" -G Ninja -DTARN_SOURCE="$source" -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_BUILD_TYPE=Release "$@" >"$folder.log" 2>&1 || { cat "$folder.log"; fail "the project with tarn in it does not configure: $*"; }
}

rm -rf "$scratch"
mkdir -p "$scratch"
for how in FetchContent add_subdirectory; do
  folder=$scratch/$how
  configure "$folder" -DHOW=$how
  made=$(ninja -C "$folder" -t commands all)
  grep -q 'libtarn\.a' <<<"$made" || fail "$how: the linked archive is not built"
  ! grep -qE 'hardened|libtarn-api|gates\.cpp|\.so\.1|libtarn_record|gtest' <<<"$made" || fail "$how: more is built than the linked archive"
  ! grep -q -- '-Werror' <<<"$made" || fail "$how: warnings are errors"
  ! grep -rqE 'libtarn|tarn-config|include/tarn' --include=cmake_install.cmake "$folder" || fail "$how: tarn is installed with the project"
done
# Asked for, tarn is installed with it.
configure "$scratch/installed" -DHOW=add_subdirectory -DTARN_INSTALL=ON
grep -rq 'libtarn\.a' --include=cmake_install.cmake "$scratch/installed" || fail "TARN_INSTALL=ON installs nothing"

# refused WORD ARGUMENT…: options that exclude each other end in one sentence with WORD.
refused() {
  local word=$1
  shift
  if "$cmake" -S "$source" -B "$scratch/refused" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" "$@" >"$scratch/refused.log" 2>&1; then
    fail "configures: $*"
  fi
  grep -q "$word" "$scratch/refused.log" || { cat "$scratch/refused.log"; fail "not said: $word"; }
  rm -rf "$scratch/refused"
}
refused "are both OFF" -DTARN_BUILD_SHARED=OFF -DTARN_BUILD_STATIC=OFF
refused "the command preloads the shared library" -DTARN_BUILD_SHARED=OFF
refused "the tests need" -DTARN_BUILD_STATIC=OFF

if [ "$build" = --build ]; then
  "$cmake" --build "$scratch/FetchContent" >"$scratch/build.log" 2>&1 || { tail -n 30 "$scratch/build.log"; fail "does not build"; }
  "$cmake" --install "$scratch/FetchContent" --prefix "$scratch/prefix" >/dev/null
  [ "$(cd "$scratch/prefix" && find . -type f)" = ./bin/another ] || fail "installed: $(find "$scratch/prefix" -type f)"
  "$scratch/prefix/bin/another" replaced
fi
echo "tarn works as a part of another project${build:+, which was built}"
