// SPDX-License-Identifier: MIT
// stats_writer: writes named values, in groups and tables, as text or as JSON, in pieces, through a function of the
// program.
//
// Owner: one call of malloc_stats_print. The function may allocate, so no lock may be held. Thread safety: one thread.
#pragma once

#include <cstdint>

#include "base/text.hpp"
#include "jemalloc/message.hpp"

namespace tarn::jemalloc {

class stats_writer {
 public:
  stats_writer(text_function write, void* context, bool json)
      : write_(write), context_(context), json_(json) {}

  [[nodiscard]] bool is_json() const { return json_; }

  // A group of values. In text, its name is a title.
  void begin(const char* name);
  void end();
  // A row of values on one line; in JSON an object in an array.
  void begin_rows(const char* name);
  void begin_row();
  void end_row();
  void end_rows();

  void value(const char* name, std::uint64_t number);
  void value_signed(const char* name, std::int64_t number);
  void flag(const char* name, bool is_set);
  void text(const char* name, const char* value);

  // Of the text form only.
  void line(const char* text);

  void begin_all();
  void end_all();

 private:
  void item(const char* name);
  void separate();
  void after_value();
  void put_string(const char* text);
  void flush_if_full();
  void flush();

  static constexpr std::size_t capacity = 2048;
  text_function write_;
  void* context_;
  const bool json_;
  char buffer_[capacity + 1];
  text_writer out_{buffer_, capacity};
  bool is_first_ = true;
  bool in_row_ = false;
  unsigned depth_ = 0;
};

}  // namespace tarn::jemalloc
