#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# g++ compiles a program to the same object file, bit for bit.
. "$(dirname "$0")/common.sh"
need g++ g++

cat >source.cpp <<'CODE'
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <sstream>
#include <unordered_map>
#include <variant>
template <int n> struct tower { std::map<int, std::variant<int, std::string>> level; tower<n - 1> below; };
template <> struct tower<0> {};
int main(int count, char** words) {
  tower<60> all;
  std::unordered_map<std::string, std::function<int(int)>> table;
  std::regex pattern("([a-z]+)-([0-9]+)");
  std::ostringstream out;
  for (int i = 0; i < count; ++i) {
    std::string word = words[i];
    std::smatch match;
    if (std::regex_match(word, match, pattern)) table[match[1]] = [i](int x) { return x * i; };
    out << word << '\n';
  }
  std::vector<std::string> keys;
  for (auto& [key, value] : table) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  std::cout << out.str() << keys.size() << all.level.size();
}
CODE
modes=(-O2)
[ "$long" = 1 ] && modes=(-O0 -O2 -O3)
for mode in "${modes[@]}"; do
  flags=(-std=c++17 "$mode" -g -c source.cpp -o object.o)
  without 300 g++ "${flags[@]}" || fail "g++ $mode fails without tarn"
  mv object.o without.o
  with 300 g++ "${flags[@]}" || fail "g++ $mode fails with tarn (status $?)"
  require_loaded cc1plus
  compare "object of g++ $mode" without.o object.o
done
same "objects of g++ ${modes[*]}"
