// SPDX-License-Identifier: MIT
// settings: changes of options while the program runs, and questions under the names of tarn's C interface and of glibc's.
//
// Thread safety: any thread may call.
#pragma once

#include <malloc.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "model.hpp"
#include "tarn/malloc.h"

namespace tarn::fuzz {

// One of the values that mean something; it stays until the next.
inline void set_known_option(input& in) {
  static constexpr const char* settings[][2] = {
      {"decay_ms", "0"},       {"decay_ms", "1000"},  {"decay_ms", "-1"},      {"cache_budget", "0"},
      {"cache_budget", "64M"}, {"large_cache", "0"},  {"large_cache", "256M"}, {"huge_pages", "never"},
      {"huge_pages", "auto"},  {"background", "off"}, {"background", "on"},    {"guarded", "1"},
      {"guarded", "50"},       {"guarded", "off"},    {"guarded", "none"},     {"no_option", "1"},
  };
  const auto& one = settings[in.byte() % std::size(settings)];
  const int expected = one[1] == std::string("none")        ? EINVAL
                       : one[0] == std::string("no_option") ? ENOENT
                                                            : 0;
  require(tarn_set_option(one[0], one[1]) == expected, "setting an option");
}

// Any text for an option, or as a name: it is taken or refused, and then the option's earlier value comes back.
inline void set_any_option(input& in) {
  tarn_option option;
  const bool known = tarn_option_at(in.byte() % 16, &option) == 0;
  const std::string name = known ? option.name : "";
  const std::string before = known ? option.value : "";
  std::string text;
  for (unsigned length = in.byte() % 24; length != 0; --length) {
    if (const auto letter = static_cast<char>(in.byte()); letter != 0) text += letter;
  }
  const int outcome = tarn_set_option(known ? name.c_str() : text.c_str(), text.c_str());
  require(outcome == 0 || outcome == EINVAL || outcome == ENOENT,
          "tarn_set_option gives no errno of its own");
  if (known && outcome == 0)
    require(tarn_set_option(name.c_str(), before.c_str()) == 0, "an option's own value is refused");
}

inline void ask_for_figures() {
  tarn_stats stats;
  tarn_get_stats(&stats);
  require(stats.large + stats.cached <= stats.in_use, "statistics do not add up");
  char text[700];
  require(tarn_stats_json(text, sizeof text) < sizeof text, "statistics are longer than ever");
  tarn_option option;
  for (std::size_t index = 0; tarn_option_at(index, &option) == 0; ++index)
    require(option.name != nullptr && option.value != nullptr, "an option without a name or a value");
  require(tarn_good_size(100) >= 100, "a good size is less than what was asked for");
}

// In the builds that replace malloc, tarn answers.
inline void ask_by_names_of_libc() {
  malloc_trim(0);
  static_cast<void>(mallinfo2());
  void* const block = std::malloc(100);
  require(malloc_usable_size(block) >= 100, "malloc_usable_size tells less than was asked for", block);
  std::free(block);
}

}  // namespace tarn::fuzz
