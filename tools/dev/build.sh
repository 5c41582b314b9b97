# SPDX-License-Identifier: MIT
# Configuring and building the presets, and running their tests. Sourced by ./dev.
# shellcheck shell=bash

presets='quick dev release bench asan-ubsan tsan aarch64'

check_cmake() {
  local version
  version=$(cmake --version | sed -nE 's/^cmake version ([0-9.]+).*/\1/p')
  if [ "$(printf '%s\n3.25\n' "$version" | sort -V | head -n 1)" != 3.25 ]; then
    fail 2 "./dev works with the presets, which need CMake 3.25 or newer; this is $version" \
      "Install a newer one (Debian 12 and Ubuntu 24.04 have it; 'pip install cmake' works too), or build without ./dev, which CMake 3.18 can: cmake -S . -B build."
  fi
}

# configure PRESET: with its tests where GoogleTest is there, which the libraries and the command do without.
configure() {
  local testing=OFF
  check_cmake
  is_there '<gtest/gtest.h>' && testing=ON
  use_compiler_cache
  step "Configuring $1" "build/log/$1-configure.log" cmake --preset "$1" -DTARN_BUILD_TESTS=$testing
}

# Where ccache is installed, a fresh build folder compiles through it; precompiled headers need the sloppiness.
use_compiler_cache() {
  command -v ccache >/dev/null 2>&1 || return 0
  export CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER-ccache} CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS-pch_defines,time_macros} CCACHE_BASEDIR=${CCACHE_BASEDIR-$PWD}
}

# build PRESET [TARGET…]: all of it, or the targets.
build() {
  local preset=$1
  shift
  configure "$preset" || return 1
  step "Building $preset" "build/log/$preset-build.log" \
    cmake --build "build/$preset" ${1:+--target "$@"}
}

# What is installed: the libraries and the command. The tests of release are built by ./dev test only.
build_release_products() {
  build release tarn_products
}

# run_tests PRESET CTEST-ARG…: runs tests and keeps ctest's closing line in the array closing_lines. Twice as many
# tests as there are processors, as many of them wait: for periods of time, or for programs that they have started.
# Those that do not, tests with threads that compute, say so by PROCESSORS.
closing_lines=()
run_tests() {
  local preset=$1 log=build/log/$1-test.log runner=() status=0 line
  shift
  # ThreadSanitizer's shadow memory does not bear every layout that a randomised address space may have.
  if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then
    runner=(setarch "$(uname -m)" -R)
  fi
  step "Testing $preset" "$log" "${runner[@]}" ctest --test-dir "build/$preset" --output-on-failure \
    --no-tests=error -j $(($(nproc) * 2)) "$@" || status=1
  sed -nE '/tests did not run:/,/^$/ { s/^[[:space:]]*[0-9]+ - (.*) \(Skipped\)$/  skipped here: \1/p }' "$log"
  [ $status -eq 0 ] || sed -nE '/The following tests FAILED/,$ s/^[[:space:]]+[0-9]+ - /  failed: /p' "$log"
  line=$(grep -E '^[0-9]+% tests passed' "$log" || echo "0% tests passed, 1 tests failed out of 1 (ctest ran none)")
  if [ $status -ne 0 ] && repeat_failed "$preset" "${runner[@]}"; then
    line=$(without_passed "$line")
    [[ $line != 100%* ]] || status=0
  fi
  printf '%s\n' "$line"
  closing_lines+=("$preset: $line")
  return "$status"
}

# repeat_failed PRESET RUNNER…: runs again, one after the other, those failed tests that tests/tiers.txt lets repeat. The
# names of those that pass go into the array passed_alone. False: there was none to repeat.
passed_alone=()
repeat_failed() {
  local preset=$1 log=build/log/$1-again.log names
  shift
  passed_alone=()
  names=$(sed -E 's/^[0-9]+://' "build/$preset/Testing/Temporary/LastTestsFailed.log" 2>/dev/null |
    grep -f <(tests_to_repeat) | sed 's/[.]/[.]/g' | paste -sd'|')
  [ -n "$names" ] || return 1
  step "Repeating failed tests alone" "$log" "$@" ctest --test-dir "build/$preset" --output-on-failure -R "^($names)\$"
  mapfile -t passed_alone < <(sed -nE 's/.* Test +#[0-9]+: ([^ ]+) [. ]*Passed .*/\1/p' "$log")
  [ ${#passed_alone[@]} -eq 0 ] || printf '  failed, and passed alone: %s\n' "${passed_alone[@]}"
}

# without_passed LINE: ctest's closing line, with the tests in passed_alone among the passed ones.
without_passed() {
  awk -v again="${#passed_alone[@]}" '{
    failed = $4 - again
    printf "%d%% tests passed, %d tests failed out of %d", int(100 * ($NF - failed) / $NF), failed, $NF
    if (again > 0) printf " (%d failed at first, and passed alone)", again
  }' <<<"$1"
}
