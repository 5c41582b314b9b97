#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# valgrind: a C++ program linked with tarn. memcheck replaces tarn's malloc by its own; it reports the program's error
# and nothing else. Under the tools callgrind and none, tarn's own malloc runs.
include=$(realpath "$(dirname "$0")/../../include") # before common.sh changes the folder
. "$(dirname "$0")/common.sh"
need valgrind valgrind
need g++ g++

rounds=20
[ "$long" = 1 ] && rounds=400
cat >work.cpp <<'CODE'
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <tarn/malloc.h>

static std::uint64_t work(unsigned seed, int rounds) {
  std::map<std::string, std::vector<int>> table;
  std::uint64_t sum = 0;
  for (int i = 0; i < rounds * 50; ++i) {
    seed = seed * 1103515245u + 12345u;
    std::string name(3 + seed % 90, static_cast<char>('a' + seed % 26));
    table[name].push_back(i);
    if (i % 3 == 0) table.erase(table.begin());
    void* aligned = std::aligned_alloc(64, 64 * (1 + seed % 9));
    std::memset(aligned, 1, 64);
    char* text = static_cast<char*>(std::calloc(1, 1 + seed % 5000));
    text = static_cast<char*>(std::realloc(text, 9000));
    sum += static_cast<unsigned char>(text[0]) + name.size() + table.size();
    std::free(text);
    std::free(aligned);
  }
  return sum;
}

int main(int count, char** arguments) {
  const int rounds = std::atoi(arguments[1]);
  if (count > 2) {  // what memcheck must find
    char* block = static_cast<char*>(std::malloc(40));
    std::free(block);
    std::printf("%d\n", *static_cast<volatile char*>(block));
    return 0;
  }
  std::uint64_t sums[3];
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) threads.emplace_back([&sums, t, rounds] { sums[t] = work(t, rounds); });
  for (std::thread& each : threads) each.join();
  std::printf("%llu %llu %llu\n", static_cast<unsigned long long>(sums[0]),
              static_cast<unsigned long long>(sums[1]), static_cast<unsigned long long>(sums[2]));
  tarn_stats stats;
  tarn_get_stats(&stats);
  std::fprintf(stderr, "spans made: %llu\n", static_cast<unsigned long long>(stats.spans_made));
}
CODE
library_folder=$(dirname "$TARN_LIB")
g++ -std=c++20 -O1 -g -fno-builtin -pthread -I"$include" work.cpp "$TARN_LIB" -Wl,-rpath,"$library_folder" -o work ||
  fail "a program cannot be linked with $(basename "$TARN_LIB")"
without 60 ./work $rounds >plain.txt 2>plain.err || fail "the program fails without valgrind (status $?)"

# under TOOL-AND-OPTIONS…: runs the program under valgrind; its output is the same, and valgrind reports no error.
under() {
  local label=${1#--tool=}
  without 600 valgrind "$@" --error-exitcode=9 ./work $rounds >out.txt 2>err.txt ||
    { grep -v '^$' err.txt | head -n 30 >&2; fail "the program under $label fails (status $?)"; }
  compare "output under $label" plain.txt out.txt
}
# The program used tarn's malloc, not valgrind's.
require_own_malloc() {
  grep -qE '^spans made: [1-9]' err.txt || fail "tarn's malloc did not run under $1: $(grep '^spans' err.txt)"
}
under --tool=memcheck --leak-check=full --errors-for-leak-kinds=definite,indirect
grep -q 'ERROR SUMMARY: 0 errors' err.txt || fail "memcheck gave no summary"
grep -q 'definitely lost: [1-9]' err.txt && fail "memcheck reports a leak"
under --tool=none
require_own_malloc none
under --tool=callgrind --callgrind-out-file=calls.txt
require_own_malloc callgrind
grep -qF "$(basename "$TARN_LIB")" calls.txt || fail "callgrind saw no call into $(basename "$TARN_LIB")"

without 60 valgrind --tool=memcheck --error-exitcode=9 ./work 1 wrong >out.txt 2>err.txt
status=$?
[ $status = 9 ] && grep -q 'Invalid read' err.txt || fail "memcheck misses a read of freed memory (status $status)"
grep -q "free'd" err.txt || fail "memcheck does not report where the block was freed"
same "a program of three threads under memcheck, none and callgrind"
