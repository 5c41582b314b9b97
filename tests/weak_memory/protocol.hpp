// SPDX-License-Identifier: MIT
// protocol: a named model of one protocol between threads, with the parts that can be taken away from it.
//
// As it is, the protocol must hold in every execution. Without any one of its parts it must break, or the model proves
// nothing. A model asks without("part") where the part would be.
//
// A comment before each protocol names what it models, one line per variable of the sources:
//   // Covers: FILE: VARIABLE.OPERATION ORDER, …
// check_covered.py compares these lines with the sources. Used by one thread.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "explorer.hpp"

namespace weak {

inline std::string_view taken_away;
inline bool without(std::string_view part) { return taken_away == part; }
// The order, or relaxed where the part is taken away.
inline order unless(std::string_view part, order o) { return without(part) ? order::relaxed : o; }

struct protocol {
  const char* name;
  model (*make)();
  std::vector<std::string_view> parts;
};

inline std::vector<protocol>& protocols() {
  static std::vector<protocol> all;
  return all;
}

struct registered {
  registered(const char* name, std::initializer_list<std::string_view> parts, model (*make)()) {
    protocols().push_back({name, make, parts});
  }
};

}  // namespace weak
