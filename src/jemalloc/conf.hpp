// SPDX-License-Identifier: MIT
// conf: jemalloc's options as the user writes them, "dirty_decay_ms:5000,thp:never": in the program's variable
// malloc_conf, in the target of the symbolic link /etc/malloc.conf and in the environment variable MALLOC_CONF. A later
// source takes precedence. conf_options has what tarn makes of each option.
//
// An option that is not jemalloc's, or has a bad value, is reported on standard error and ignored; abort_conf:true ends
// the process then. One that asks for a part of jemalloc that tarn does not have (profiling, filling with bytes) is told
// on standard error. Another option that tarn has no counterpart for is ignored without a word, unless confirm_conf:true
// asks what became of each.
//
// Thread safety: read_conf() runs once; everything else is constant after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tarn::jemalloc {

// Of the value of "opt.<name>".
enum class conf_type : std::uint8_t { flag, number, size, signed_size, signed_64, text };

struct conf_option {
  std::string_view name;
  conf_type type;
  bool has_name;  // "opt.<name>" exists
  // What "opt.<name>" says: what is in effect in tarn. Of the two only that of the type is used.
  std::int64_t (*value)();
  const char* (*text)();
  // Makes the value that the user has written tarn's. Null: tarn has no counterpart.
  void (*apply)(std::string_view written);
  const char* counterpart;  // what that is, for confirm_conf; null: none
  // Of a part that tarn does not have here: what is said when the option asks for it. Null: nothing is said.
  const char* missing = nullptr;
};

struct conf_list {
  const conf_option* options;
  std::size_t count;
};
extern const conf_list conf_options;

void read_conf();

// From the options.
// What the options abort_conf and confirm_conf say.
bool aborts_on_bad_conf();
bool confirms_conf();

bool prints_statistics_at_exit();
const char* statistics_options();

}  // namespace tarn::jemalloc
