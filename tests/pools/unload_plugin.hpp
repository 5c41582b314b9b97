// SPDX-License-Identifier: MIT
// What the program `unload` and its plugin share: a type whose pool both use, and the plugin's function.
#pragma once

#include <cstdint>

struct shared_by_both {
  explicit shared_by_both(std::uint64_t n) : number(n), again(~n) {}
  std::uint64_t number;
  std::uint64_t again;
};

// One call's work: destroys the `count` objects of `in` and stores `count` new ones to `out`.
struct plugin_work {
  shared_by_both** in;
  shared_by_both** out;
  unsigned count;
};
using plugin_function = bool (*)(plugin_work*);
