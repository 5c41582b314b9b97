#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# In python3's own test modules the same tests (usually none) fail with tarn and without it, also if every object comes
# from malloc.
. "$(dirname "$0")/common.sh"
python=/usr/bin/python3
[ -x $python ] || skip "no $python: install the Debian package python3"
$python -c 'import test.test_dict, test.libregrtest' 2>/dev/null ||
  skip "python3 without its test modules: install the Debian package libpython3.N-testsuite of your python3.N"

modules=(test_dict test_json test_re test_gc test_subprocess test_threading)
# The failed tests, sorted: this part of the output must not depend on the allocator.
failed_tests() { grep -E '^(FAIL|ERROR): |^(test_[a-z_]+) (failed|crashed)' "$1" | sort -u; }
# `with` would set more environment variables, and some of these tests compare the whole environment.
preloaded() { timeout -k 5 "$1" env LD_PRELOAD="$TARN_LIB" "${@:2}"; }
preloaded 60 $python -c "import sys; sys.exit(sys.argv[1] not in open('/proc/self/maps').read())" "$TARN_LIB" ||
  fail "$(basename "$TARN_LIB") is not mapped in python3"
run_tests() { "$1" 900 "$python" -m test -j1 --timeout 300 "${modules[@]}" >"$2" 2>&1; }

for allocator in pymalloc malloc; do
  export PYTHONMALLOC=$allocator
  run_tests preloaded with.txt
  status=$?
  [ $status = 0 ] && continue
  run_tests without without.txt
  failed_tests without.txt >without.failed
  failed_tests with.txt >with.failed
  cmp -s without.failed with.failed && [ -s with.failed ] && continue
  diff without.failed with.failed >&2
  grep -E '^(FAIL|ERROR): |Error: |failed|crashed' with.txt | tail -n 30 >&2
  fail "test modules with PYTHONMALLOC=$allocator give other failures with tarn (status $status)"
done
same "${modules[*]}"
