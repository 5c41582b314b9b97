// SPDX-License-Identifier: MIT
#include "jemalloc/stats_writer.hpp"

namespace tarn::jemalloc {
namespace {
// The longest item, a name and a value, has less.
constexpr std::size_t room_for_item = 1024;
}  // namespace

void stats_writer::flush() {
  buffer_[out_.stored()] = '\0';
  if (out_.stored() != 0) write_(context_, buffer_);
  out_ = text_writer(buffer_, capacity);
}

void stats_writer::flush_if_full() {
  if (out_.size() > capacity - room_for_item) flush();
}

// JSON: the comma between two items.
void stats_writer::separate() {
  flush_if_full();
  if (json_ && !is_first_) out_.put(',');
  is_first_ = false;
}

void stats_writer::item(const char* name) {
  separate();
  if (json_) {
    out_.put('"').put(name).put("\":");
    return;
  }
  if (!in_row_) {
    for (unsigned i = 1; i < depth_; ++i) out_.put("  ");
  }
  out_.put(name).put(in_row_ ? " " : ": ");
}

void stats_writer::after_value() {
  if (!json_) out_.put(in_row_ ? "  " : "\n");
}

void stats_writer::begin_all() {
  if (json_) {
    out_.put('{');
  } else {
    out_.put("___ Begin jemalloc statistics ___\n");
  }
}

void stats_writer::end_all() {
  out_.put(json_ ? "}\n" : "--- End jemalloc statistics ---\n");
  flush();
}

void stats_writer::begin(const char* name) {
  separate();
  if (json_) {
    out_.put('"').put(name).put("\":{");
  } else {
    for (unsigned i = 1; i < depth_; ++i) out_.put("  ");
    out_.put(name).put(":\n");
  }
  is_first_ = true;
  ++depth_;
}

void stats_writer::end() {
  if (json_) out_.put('}');
  is_first_ = false;
  --depth_;
}

void stats_writer::begin_rows(const char* name) {
  separate();
  if (json_) {
    out_.put('"').put(name).put("\":[");
  } else {
    for (unsigned i = 1; i < depth_; ++i) out_.put("  ");
    out_.put(name).put(":\n");
  }
  is_first_ = true;
  ++depth_;
}

void stats_writer::begin_row() {
  separate();
  if (json_) {
    out_.put('{');
  } else {
    for (unsigned i = 1; i < depth_; ++i) out_.put("  ");
  }
  is_first_ = true;
  in_row_ = true;
}

void stats_writer::end_row() {
  out_.put(json_ ? '}' : '\n');
  is_first_ = false;
  in_row_ = false;
}

void stats_writer::end_rows() {
  if (json_) out_.put(']');
  is_first_ = false;
  --depth_;
}

void stats_writer::value(const char* name, std::uint64_t number) {
  item(name);
  out_.number(number);
  after_value();
}

void stats_writer::value_signed(const char* name, std::int64_t number) {
  item(name);
  out_.signed_number(number);
  after_value();
}

void stats_writer::flag(const char* name, bool is_set) {
  item(name);
  out_.put(is_set ? "true" : "false");
  after_value();
}

void stats_writer::text(const char* name, const char* value) {
  item(name);
  put_string(value);
  after_value();
}

void stats_writer::line(const char* text) {
  if (json_) return;
  flush_if_full();
  out_.put(text).put('\n');
}

void stats_writer::put_string(const char* text) {
  out_.put('"');
  for (std::size_t i = 0; text[i] != '\0' && i < room_for_item / 4; ++i) {
    const char c = text[i];
    if (c == '"' || c == '\\') out_.put('\\');
    out_.put(static_cast<unsigned char>(c) < ' ' ? '?' : c);
  }
  out_.put('"');
}

}  // namespace tarn::jemalloc
