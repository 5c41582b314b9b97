// SPDX-License-Identifier: MIT
// Explores the protocols (all, or those named by arguments), complete and without each of their parts. Exit status: 0 the
// complete ones hold and all others break; 1 not, with the execution that shows it. Used by one thread.
#include <cstdio>
#include <cstring>

#include "protocol.hpp"

namespace {

// Whether the outcome is the expected one.
bool explore(const weak::protocol& p, std::string_view part) {
  weak::taken_away = part;
  const weak::model model = p.make();
  const weak::verdict result = weak::explorer(model).run();
  const bool as_expected = (result.broken == nullptr) == part.empty();
  std::printf("%s%s %s%s: %s, %zu states\n", as_expected ? "" : "WRONG: ", p.name,
              part.empty() ? "complete" : "without ", std::string(part).c_str(),
              result.broken != nullptr ? result.broken : "holds", result.states);
  if (!as_expected) {
    for (const std::string& line : result.trace) std::printf("    %s\n", line.c_str());
  }
  return as_expected;
}

}  // namespace

int main(int argc, char** argv) {
  bool good = true;
  std::size_t explored = 0;
  for (const weak::protocol& p : weak::protocols()) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted = wanted || std::strcmp(argv[i], p.name) == 0;
    if (!wanted) continue;
    ++explored;
    good = explore(p, {}) && good;
    for (const std::string_view part : p.parts) good = explore(p, part) && good;
  }
  if (explored == 0) std::printf("no protocol of that name\n");
  return good && explored != 0 ? 0 : 1;
}
