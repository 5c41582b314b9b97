// SPDX-License-Identifier: MIT
// settings: changes of options while the program runs, and calls of tarn's and glibc's functions for statistics.
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

// Sets one of some meaningful values, valid or not; a valid one stays until the next call.
inline void set_known_option(input& in) {
  static constexpr const char* settings[][2] = {
      {"decay_ms", "0"},       {"decay_ms", "1000"},  {"decay_ms", "-1"},      {"cache_budget", "0"},
      {"cache_budget", "64M"}, {"large_cache", "0"},  {"large_cache", "auto"}, {"huge_pages", "never"},
      {"huge_pages", "auto"},  {"background", "off"}, {"background", "on"},    {"guarded", "1"},
      {"guarded", "50"},       {"guarded", "off"},    {"cpu_caches", "on"},    {"cpu_caches", "off"},
      {"guarded", "none"},     {"no_option", "1"},    {"profile", "300"},      {"profile", "off"},
  };
  const auto& one = settings[in.byte() % std::size(settings)];
  const int expected = one[1] == std::string("none")        ? EINVAL
                       : one[0] == std::string("no_option") ? ENOENT
                                                            : 0;
  require(tarn_set_option(one[0], one[1]) == expected, "setting an option");
}

// Sets an option to any text, or any text as the name of an option. The text is accepted or refused; if it was
// accepted, the option gets its old value back.
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
          "tarn_set_option returns an undocumented error number");
  if (known && outcome == 0)
    require(tarn_set_option(name.c_str(), before.c_str()) == 0, "an option's own value is refused");
}

inline void ask_for_figures() {
  tarn_stats stats;
  tarn_get_stats(&stats);
  require(stats.large + stats.cached <= stats.in_use, "statistics do not add up");
  char text[700];
  require(tarn_stats_json(text, sizeof text) < sizeof text, "the statistics do not fit into 700 bytes");
  tarn_option option;
  for (std::size_t index = 0; tarn_option_at(index, &option) == 0; ++index)
    require(option.name != nullptr && option.value != nullptr, "an option without a name or a value");
  require(tarn_good_size(100) >= 100, "tarn_good_size is less than the requested size");
}

// In the builds that replace malloc, these functions are tarn's.
inline void ask_by_names_of_libc() {
  malloc_trim(0);
  static_cast<void>(mallinfo2());
  void* const block = std::malloc(100);
  require(malloc_usable_size(block) >= 100, "malloc_usable_size is less than the requested size", block);
  std::free(block);
}

}  // namespace tarn::fuzz
