# SPDX-License-Identifier: MIT
# The commands of ./dev. Sourced by it.
# shellcheck shell=bash

dev_help() {
  cat <<'TEXT'
./dev COMMAND …

  run [OPTION…] [-- PROGRAM ARG…]   run PROGRAM under the system's malloc, tarn and the other allocators that are
                                    installed, and print the table; without PROGRAM, a service that comes with
                                    tarn (tools/workloads/). Builds only what that needs, and the rest after it.
                                    OPTION… go to `tarn compare`, e.g. -r 5
  test [--full | --long]            check, build and test in a few minutes: unit and death tests, the guarantees, pools
                                    and the command, with internal checks. --full is what a landing has besides: the
                                    libraries that users install, real programs, other compilers, sanitizers;
                                    clang-tidy reads what the last ten commits changed, or what differs from
                                    TIDY_BASE=COMMIT. --long adds what takes hours. Which test is where: tests/tiers.txt
  build [PRESET]                    build a preset into build/PRESET: release (the default: the libraries and
                                    the command), dev, bench, asan-ubsan, tsan
  install [--prefix FOLDER]         build what users install, and install it in FOLDER, /usr/local unless named (by
                                    sudo where that belongs to root); says what your shell lacks to find it
  uninstall [--prefix FOLDER]       remove it again
  bench [--pools | --recyclers | --buffers | --profiler] [ARG…]
                                    build and run the benchmarks, of malloc, of the typed pools, of the recycler,
                                    of buffer pools, or of the profiler; --help after it lists ARG…
  site                              build the documents as a site into build/site/html, and check its links
  check                             formatting, clang-tidy, the order of the folders, public headers, licences
  release [--key KEY] [NAME…]       make what users download into build/artefacts: an artefact for each folder of
                                    packaging/, or for those named, an apt repository, SHA256SUMS, and what they
                                    contain; signed by the GPG key KEY, with what they were made from
  release --check [--from FOLDER] [SUITE…]
                                    install each in clean Debian systems (bookworm, trixie), try it, remove it,
                                    and show that nothing remains; as root. --from: first the artefacts of an
                                    older release, which are then upgraded
  help                              this text

On Debian and Ubuntu, as root or with sudo, a command installs by apt-get what it lacks and says so; elsewhere
it names what is missing and stops with status 2. CXX=… chooses another compiler for a fresh build folder.
TEXT
}

dev_run() {
  local options=()
  case ${1:--} in
    -*) ;;
    *) fail_usage "run takes options first, then '--' and the program: ./dev run -- $*" ;;
  esac
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  [ $# -eq 0 ] || shift
  need "$needs_build" "$wants_build$wants_peers"
  build release tarn_compare || fail 1 "the release build failed" "Read the messages above; ./dev build repeats it."
  local compare=$PWD/build/release/bin/tarn-compare status=0
  if [ $# -gt 0 ]; then
    (cd "$called_from" && exec "$compare" "${options[@]}" -- "$@") || status=$?
  else
    [ ${#options[@]} -gt 0 ] || options=(-r 5)
    build_workload || fail 1 "the program to measure was not built" "Read the messages above."
    printf '\nA service that parses orders in JSON and keeps the newest (tools/workloads/order_service.cpp):\n\n'
    "$compare" "${options[@]}" -- build/workloads/order_service || status=$?
    printf '\nYour own program: ./dev run -- PROGRAM ARG…\n'
  fi
  # Wrong usage of `tarn compare`, which has said so.
  [ $status -ne 2 ] || exit 2
  printf '\nNow the rest of tarn is built: the command with its other verbs, and the libraries to link (Ctrl-C stops it).\n'
  build_release_products || fail 1 "the release build failed" "Read the messages above; ./dev build repeats it."
  echo "Built: build/release/bin/tarn. What it can do: build/release/bin/tarn help"
  exit $status
}

# The program that ./dev run measures, as its users would compile it.
build_workload() {
  local compiler
  find_compiler
  mkdir -p build/workloads &&
    step "Compiling the program to measure" build/log/workload.log \
      "${compiler[@]}" -std=c++20 -O2 -pthread tools/workloads/order_service.cpp -o build/workloads/order_service
}

dev_build() {
  [ $# -le 1 ] || fail_usage "build takes one preset, not '$*'"
  local preset=${1:-release}
  case " $presets " in
    *" $preset "*) ;;
    *) fail_usage "there is no preset '$preset'; there are: $presets" ;;
  esac
  case $preset in
    release) need "$needs_build" "$wants_build" ;;
    bench) need "$needs_build$needs_tests$needs_bench" ;;
    *) need "$needs_build$needs_tests" "$wants_build" ;;
  esac
  if [ "$preset" = release ]; then
    build_release_products
  else
    build "$preset"
  fi || fail 1 "the $preset build failed" "Read the messages above, change the source, and run ./dev build $preset again."
  echo "Built: build/$preset/ (libraries in lib/, the command in bin/)"
}

dev_bench() {
  local suite=malloc
  case ${1:-} in
    --pools | --recyclers | --buffers | --profiler)
      suite=${1#--}
      shift
      ;;
  esac
  case " $* " in
    *' --help '* | *' -h '*) exec python3 bench/run.py "$suite" --help ;;
    *' --list '* | *' --from-json '*) exec "$(python_with matplotlib || echo python3)" bench/run.py "$suite" "$@" ;;
  esac
  local wants=wants_$suite
  need "$needs_build$needs_bench" "${!wants}"
  # The tests are left out: they take longer to build than the benchmarks.
  build bench bench/all tarn_products || fail 1 "the bench build failed" "Read the messages above; ./dev build bench repeats it."
  exec "$(python_with matplotlib || echo python3)" bench/run.py "$suite" "$@"
}

dev_site() {
  [ $# -eq 0 ] || fail_usage "site takes no argument"
  need "$needs_site"
  python3 tools/site/build.py || fail 1 "the site was not built" "Read the messages above; then run ./dev site again."
}

# The first of clang-format-16, clang-format-17 … that is there.
llvm_tool() {
  local version
  for version in -16 -17 -18 -15 -14 ''; do
    if command -v "$1$version" >/dev/null 2>&1; then
      command -v "$1$version"
      return
    fi
  done
}

# Versions of clang's tools differ in what they make of the same rules; the project's is 16.
is_version_16() {
  "$1" --version | grep -q 'version 16\.'
}

check_format() {
  local tool
  tool=$(llvm_tool clang-format)
  if [ -z "$tool" ] || ! is_version_16 "$tool"; then
    echo "formatting: not checked, it wants clang-format 16 and this is ${tool:+$("$tool" --version)}"
    return 0
  fi
  git ls-files --cached --others --exclude-standard '*.hpp' '*.cpp' '*.h' '*.c' |
    while IFS= read -r file; do [ ! -f "$file" ] || printf '%s\0' "$file"; done |
    xargs -0 "$tool" --dry-run -Werror
}

# check_tidy [COMMIT]: all sources, or what differs from COMMIT. Needs the dev preset configured, for the compiler's
# commands.
check_tidy() {
  local tool
  tool=$(llvm_tool clang-tidy)
  if ! is_version_16 "$tool"; then
    echo "clang-tidy: not run, it wants version 16 and this is $("$tool" --version | grep -o 'version .*')"
    return 0
  fi
  python3 tools/tidy.py "$tool" build/dev "$@"
}

# The commit from which on changes are new to a clone: TIDY_BASE where it is set, or else the tenth before this one.
# Nothing where the history does not reach so far, as in a shallow clone.
base_commit() {
  git rev-parse --quiet --verify "${TIDY_BASE:-HEAD~10}^{commit}"
}

# By g++, and by clang++ where check_headers_with is "all".
check_headers() {
  local clang=''
  [ "${check_headers_with:-}" != all ] || clang=$(llvm_tool clang++)
  # shellcheck disable=SC2086 # no clang, no argument
  tools/check_headers.sh g++ $clang
}

dev_check() {
  [ $# -eq 0 ] || fail_usage "check takes no argument"
  need "$needs_build$needs_check$needs_tests" "$wants_check"
  run_checks || fail 1 "the checks found something" \
    "Read it above. Formatting is mended by: clang-format-16 -i FILE…; then run ./dev check again."
}

# run_checks [COMMIT]: of clang-tidy's files those that differ from COMMIT, which takes minutes less.
run_checks() {
  local status=0
  check_headers_with=all run_quick_checks || status=1
  configure dev && step "Checking with clang-tidy" build/log/tidy.log check_tidy "$@" || status=1
  grep '^clang-tidy: ' build/log/tidy.log
  return $status
}

run_quick_checks() {
  local status=0
  step "Checking text and licences" build/log/text.log python3 tools/check_text.py || status=1
  step "Checking the order of folders" build/log/layers.log python3 tools/check_layers.py || status=1
  step "Weighing the rooms" build/log/weight.log python3 tools/weight.py || status=1
  step "Checking public headers" build/log/headers.log check_headers || status=1
  step "Checking the formatting" build/log/format.log check_format || status=1
  grep '^formatting: not checked' build/log/format.log
  return $status
}

dev_test() {
  local tier=quick
  case "$#:${1:-}" in
    0:) ;;
    1:--full | 1:--long) tier=${1#--} ;;
    *) fail_usage "test takes --full, --long or nothing, not '$*'" ;;
  esac
  local started=$SECONDS
  failed=()
  "test_$tier"
  printf '\nAfter %d s%s:\n' $((SECONDS - started)) "$(minutes_budget "${1:-}" $((SECONDS - started)))"
  printf '  %s\n' "${closing_lines[@]}"
  sum_of_closing_lines
  [ ${#failed[@]} -eq 0 ] || fail 1 "failed: ${failed[*]}" \
    "Read the messages above. One test again: ctest --test-dir build/PRESET -R NAME --output-on-failure"
}

# minutes_budget --TIER SECONDS: how that stands to the minutes in tools/weight.txt, which are for two processors.
minutes_budget() {
  local minutes
  minutes=$(sed -nE "s/^minutes:test$1 +([0-9]+).*/\1/p" tools/weight.txt)
  [ -z "$minutes" ] || [ "$2" -le $((minutes * 60)) ] || printf ', more than the %d minutes of tools/weight.txt' "$minutes"
}

# The tiers: tests/tiers.txt.
test_quick() {
  need "$needs_build$needs_tests" "$wants_quick"
  echo "build/quick will take about 0.5 GB."
  account check run_quick_checks
  local left_out=long
  models_may_differ || left_out='long|model'
  test_preset quick all -LE "^($left_out)\$" -E "$(tests_not_in_quick | paste -sd'|')"
}

test_full() {
  need "$needs_build$needs_check$needs_tests" "$wants_build$wants_peers$wants_check$wants_compilers$wants_tests"
  local base=()
  mapfile -t base < <(base_commit)
  account check run_checks "${base[@]}"
  account compilers check_compilers
  test_preset release all -LE '^long$'
  account tiers check_tiers
  test_sanitizers -LE '^long$'
}

test_long() {
  need "$needs_build$needs_check$needs_tests$needs_bench" \
    "$wants_build$wants_peers$wants_check$wants_compilers$wants_tests$wants_long"
  account check run_checks
  account compilers check_compilers ON
  test_preset quick all
  test_preset release all
  test_sanitizers
  test_preset bench all -L '^bench$'
  test_aarch64
}

test_sanitizers() {
  test_preset asan-ubsan engine_tests -L '^(unit|stress)$' "$@"
  test_preset tsan engine_tests -L '^(unit|stress)$' "$@"
}

# Whether the protocols that models cover may differ from those of the commit before this one, or of the main line before a
# merge; where there is none, they may.
models_may_differ() {
  ! git diff --quiet HEAD~1 -- src include tests/model tests/weak_memory 2>/dev/null
}

# The names that tests/tiers.txt leaves to the tier full, one per line, as patterns without groups: CTest has nine of them.
tests_not_in_quick() {
  sed -nE 's/^tests +[a-z]+ +//p' tests/tiers.txt | tr -s ' ' '\n' | sed 's/[.]/[.]/g; s/[*]/.*/g; s/.*/^&$/'
}

# The names of the tests that may run a second time, as patterns for grep.
tests_to_repeat() {
  sed -nE 's/^(again|tests alone) +//p' tests/tiers.txt | tr -s ' ' '\n' | sed 's/[.]/[.]/g; s/[*]/.*/g; s/.*/^&$/'
}

# Each name in tests/tiers.txt is that of a test; a misspelt one would leave a slow test in the tier quick.
check_tiers() {
  local names pattern status=0
  names=$(ctest --test-dir build/release -N | sed -nE 's/^ *Test +#[0-9]+: //p')
  while read -r pattern; do
    grep -q "$pattern" <<<"$names" || { echo "tests/tiers.txt: no test has the name $pattern" && status=1; }
  done < <(tests_not_in_quick; tests_to_repeat)
  return $status
}

# account NAME COMMAND…: counts as one test; status 77: not run.
account() {
  local name=$1 status=0
  shift
  "$@" || status=$?
  case $status in
    0) closing_lines+=("$name: 100% tests passed, 0 tests failed out of 1") ;;
    77) closing_lines+=("$name: not run") ;;
    *)
      closing_lines+=("$name: 0% tests passed, 1 tests failed out of 1")
      failed+=("$name")
      ;;
  esac
}

# Under qemu-user, and a part on Debian's kernel for aarch64. Why forks, misuse and sandboxes are left to the latter:
# docs/design/0018.
test_aarch64() {
  if is_there aarch64-linux-gnu-g++ && is_there qemu-aarch64-static && is_there /usr/src/googletest; then
    test_preset aarch64 all -L '^(unit|death|guarantees|pools|kernels)$' \
      -E 'fork|misuse|sandbox|rights|children|failing_system_calls'
  else
    echo "aarch64: skipped: g++-aarch64-linux-gnu, qemu-user-static or googletest is missing"
  fi
}

# test_preset PRESET TARGET CTEST-ARG…: builds TARGET and tests it; what fails goes into the array failed.
test_preset() {
  local preset=$1 target=$2
  shift 2
  if ! build "$preset" "$target"; then
    closing_lines+=("$preset: 0% tests passed, 1 tests failed out of 1 (it does not build)")
    failed+=("$preset")
  elif ! run_tests "$preset" "$@"; then
    failed+=("$preset")
  fi
}

# All closing lines as one, in ctest's words.
sum_of_closing_lines() {
  printf '%s\n' "${closing_lines[@]}" | awk '
    {
      for (i = 2; i < NF; ++i) {
        if ($i == "tests" && $(i + 1) == "failed") failed += $(i - 1)
        if ($i == "of") all += $(i + 1)
      }
    }
    END { printf "%d%% tests passed, %d tests failed out of %d\n", int(100 * (all - failed) / all), failed, all }'
}
