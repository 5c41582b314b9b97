#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks that every public header compiles alone, without exceptions and run-time types, as C++20 and, where it
# ends in .h, as C11 and C++11 too; that the others say in one line that they need C++20 when they are compiled as C++17; that
# adapters compile, if their frameworks are installed; and that every public template compiles when it is used, in each mode of
# the headers.
# Usage: check_headers.sh [COMPILER…], each g++ or clang++ of some version. They run side by side.
set -u
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- g++

warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror)
count=0 status=0

# compile COMPILER LANGUAGE STANDARD HEADER FLAG…
compile() {
  local compiler=$1 language=$2 standard=$3 header=$4
  shift 4
  # The name that a user writes; twice, for the include guard.
  if ! printf '#include <%s>\n#include <%s>\n' "$header" "$header" |
    "$compiler" -x "$language" "-std=$standard" "${warnings[@]}" "$@" -Iinclude -fsyntax-only -; then
    echo "include/$header does not compile alone: $compiler -std=$standard $*"
    status=1
  fi
  count=$((count + 1))
}

# refuses COMPILER HEADER: as C++17, the first error says what is needed, and no error of the header's own lines follows.
refuses() {
  local output
  output=$(printf '#include <%s>\n' "$2" | LC_ALL=C "$1" -x c++ -std=c++17 -Iinclude -fsyntax-only - 2>&1)
  if ! grep -m 1 'error:' <<<"$output" | grep -q "tarn's C++ headers need C++20" || [ "$(grep -c 'error:' <<<"$output")" -gt 2 ]; then
    echo "include/$2 does not say in one line that it needs C++20: $1 -std=c++17"
    status=1
  fi
  count=$((count + 1))
}

templates=tests/package/every_template.cpp
adapters="\
catch2.hpp:catch2/catch.hpp
doctest.hpp:doctest/doctest.h
googletest.hpp:gtest/gtest.h"

# check_with COMPILER: all headers and all templates; says how many checks passed, or which failed.
check_with() {
  local compiler=$1 header mode
  while IFS= read -r header; do
    compile "$compiler" c++ c++20 "$header" -fno-exceptions -fno-rtti
    compile "$compiler" c++ c++20 "$header"
    if [ "${header##*.}" = h ]; then
      compile "$compiler" c++ c++11 "$header" -fno-exceptions -fno-rtti
      compile "$compiler" c c11 "$header"
    else
      refuses "$compiler" "$header"
    fi
  done < <(cd include && find tarn -maxdepth 1 -name '*.h*' | sort)

  # Adapters, if their test framework is installed. It is included first, as some require.
  while IFS=: read -r header library; do
    if ! printf '#include <%s>\n' "$library" | "$compiler" -x c++ -std=c++20 -E - >/dev/null 2>&1; then
      echo "$compiler: include/tarn/adapters/$header is not checked: <$library> is missing"
      continue
    fi
    for standard in c++20 c++2b; do
      compile "$compiler" c++ "$standard" "tarn/adapters/$header" -include "$library"
    done
  done <<<"$adapters"

  for mode in '' -DTARN_CHECKED_POOLS=1 -DNDEBUG '-fno-exceptions -fno-rtti'; do
    # shellcheck disable=SC2086 # a mode may be two words
    if ! "$compiler" -std=c++20 "${warnings[@]}" $mode -Iinclude -fsyntax-only "$templates"; then
      echo "$templates does not compile: $compiler -std=c++20 $mode"
      status=1
    fi
    count=$((count + 1))
  done
  [ $status -ne 0 ] || echo "$compiler: public headers compile alone, and every template in use ($count checks)"
  return $status
}

running=()
for compiler in "$@"; do
  check_with "$compiler" &
  running+=($!)
done

# The names of the templates of namespace tarn, of every kind; those of tarn::detail are not for users. The formatting
# puts each template's parameters on a line of their own.
public_templates() {
  sed -nE '
    /^namespace detail \{/,/^\}  \/\/ namespace detail/d
    /^template </ {
      n
      /^  requires/n
      /::operator/d
      s/(<| [=:] |[{(;]| =$).*//
      s/.*[^a-z_]([a-z_]+) *$/\1/
      p
    }' include/tarn/*.hpp | sort -u
}
for name in $(public_templates); do
  if ! grep -qw "$name" "$templates"; then
    echo "$templates does not use the template tarn::$name"
    status=1
  fi
done

for process in "${running[@]}"; do
  wait "$process" || status=1
done
exit $status
