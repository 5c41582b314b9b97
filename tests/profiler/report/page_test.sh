#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# page_test.sh bundle: the committed page is what its sources build to, and spells quantities as the terminal does.
# page_test.sh browser SAMPLE_PROGRAM: tests of the page in Chromium.
# page_test.sh looks SAMPLE_PROGRAM FOLDER: looks_test.mjs, which writes screenshots into FOLDER.
# Exit status 77, with a message about what is missing, if that cannot be tested here.
set -eu
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
page=$(cd "$tests/../../profiler/report/page" && pwd)

skip() {
  echo "skipped: $1"
  exit 77
}
command -v node >/dev/null || skip "no node (Debian: nodejs)"
[ -d "$page/node_modules/esbuild-wasm" ] || skip "no node_modules; in profiler/report/page: npm ci"

case $1 in
  bundle)
    cd "$page"
    node_modules/.bin/tsc --noEmit
    node build.mjs --check
    exec node "$tests/report/units_test.mjs" "$page" "$tests/format/quantities.json"
    ;;
  browser | looks)
    command -v chromium >/dev/null || skip "no chromium"
    [ -d "$page/node_modules/playwright-core" ] || skip "no playwright-core; in profiler/report/page: npm ci"
    [ "$1" = browser ] || exec node "$tests/report/looks_test.mjs" "$page" "$2" "$3"
    exec node "$tests/report/page_test.mjs" "$page" "$2"
    ;;
esac
