// SPDX-License-Identifier: MIT
// Explores the protocols (all, or those named by arguments), complete and without each of their parts. Exit status: 0
// if every complete one holds, all others fail, and every part that a model uses is named by a protocol; else 1, with
// the execution in which a complete one fails. Used by one thread.
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

bool every_part_is_named() {
  bool all = true;
  for (const weak::part_use& use : weak::part_uses) {
    if (use.named) continue;
    all = false;
    std::printf("WRONG: %s:%d: no protocol names the part \"%s\"\n", use.file, use.line,
                std::string(use.part).c_str());
  }
  return all;
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
    weak::named_parts = p.parts;
    good = explore(p, {}) && good;
    for (const std::string_view part : p.parts) good = explore(p, part) && good;
  }
  // Some of the protocols that share a model may not have been explored.
  if (argc == 1) good = every_part_is_named() && good;
  if (explored == 0) std::printf("no protocol of that name\n");
  return good && explored != 0 ? 0 : 1;
}
