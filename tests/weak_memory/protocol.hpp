// SPDX-License-Identifier: MIT
// protocol: a named model of one protocol between threads, with the names of the parts that can be taken away from it.
//
// The complete protocol must hold in every execution. Without any one of its parts it must fail; otherwise the model
// does not test that part. A model calls without("part") where the part belongs. A part is taken away only if it is
// named where the protocol is registered; main.cpp reports calls whose part no protocol that makes them names.
//
// A comment before each protocol names what it models, one line per variable of the sources:
//   // Covers: FILE: VARIABLE.OPERATION ORDER, …
// check_covered.py compares these lines with the sources. Used by one thread.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "explorer.hpp"

namespace weak {

inline std::string_view taken_away;

// A call of without() or unless() in the sources of the models. Several protocols may share it.
struct part_use {
  const char* file;
  int line;
  std::string_view part;
  bool named;  // by a protocol that made the call
};
inline std::vector<part_use> part_uses;
inline std::vector<std::string_view> named_parts;  // of the protocol that is explored

inline void note_use(std::string_view part, const char* file, int line) {
  const auto is_named = [part] {
    return std::find(named_parts.begin(), named_parts.end(), part) != named_parts.end();
  };
  for (part_use& use : part_uses) {
    if (use.line != line || use.file != file || use.part != part) continue;
    use.named = use.named || is_named();
    return;
  }
  part_uses.push_back({file, line, part, is_named()});
}

inline bool without(std::string_view part, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  note_use(part, file, line);
  return taken_away == part;
}
// The order, or relaxed if the part is taken away.
inline order unless(std::string_view part, order o, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  return without(part, file, line) ? order::relaxed : o;
}

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
