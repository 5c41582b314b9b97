// SPDX-License-Identifier: MIT
// conf: jemalloc's options as the user writes them, "dirty_decay_ms:5000,thp:never": in the program's variable
// malloc_conf, in the target of the symbolic link /etc/malloc.conf and in the environment variable MALLOC_CONF. A later
// source takes precedence. conf_options has those that tarn knows a counterpart or a fixed value for, and "opt.<name>"
// says what is in effect.
//
// An option that is not jemalloc's, or has a bad value, is reported on standard error and ignored. One that asks for a
// part of jemalloc that tarn does not have (profiling, filling with bytes) is reported there too. Another option that
// tarn has no counterpart for is ignored without a word.
//
// Thread safety: read_conf() runs once; everything else is constant after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tarn::jemalloc {

// Of the value of "opt.<name>".
enum class conf_type : std::uint8_t { flag, number, size, signed_size, text };

struct conf_option {
  std::string_view name;
  conf_type type;
  // What is in effect in tarn. Of the two only that of the type is used.
  std::int64_t (*value)();
  const char* (*text)();
  // Makes the value that the user has written tarn's. Null: tarn has no counterpart.
  void (*apply)(std::string_view written);
};

struct conf_list {
  const conf_option* options;
  std::size_t count;
};
extern const conf_list conf_options;

// What to use instead of a part that an option asks for and tarn does not have here; null: nothing has to be said.
const char* advice_for(std::string_view name);
// Whether jemalloc 5.3 has the option.
bool is_jemalloc_option(std::string_view name);

void read_conf();

}  // namespace tarn::jemalloc
