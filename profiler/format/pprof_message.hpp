// SPDX-License-Identifier: MIT
// pprof_message: profile.proto of pprof in the wire format of protocol buffers: written, and read field by field. The meaning of the fields: pprof's proto/profile.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/protobuf.hpp"

namespace tarn::profiler::pprof {

// Of the message Profile.
enum profile_field : unsigned {
  sample_type = 1,
  sample = 2,
  mapping = 3,
  location = 4,
  function = 5,
  string_table = 6,
  time_nanos = 9,
  duration_nanos = 10,
  period_type = 11,
  period = 12,
  comment = 13,
  default_sample_type = 14,
};
// Of Mapping: whether its locations have functions, files, lines and inlined frames. pprof looks for what is missing.
inline constexpr unsigned mapping_has[] = {7, 8, 9, 10};

class message : public protobuf::message_fields<message> {
 public:
  message() = default;
  // Begins with the fields of another one.
  explicit message(std::string_view fields) : text_(fields) {}

  void nested(unsigned field, const message& value) { text(field, value.text_); }
  // A number of eight bytes.
  void fixed(unsigned field, std::uint64_t value);
  // Whole fields of another message.
  void append(std::string_view fields) { text_ += fields; }
  void append(const void* data, std::size_t bytes) { text_.append(static_cast<const char*>(data), bytes); }
  [[nodiscard]] const std::string& whole() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

struct message_field {
  unsigned number = 0;
  std::uint64_t value = 0;  // of a field that is a number
  std::string_view bytes;   // of a field with a length
  std::string_view whole;
};

// The fields of a message, which must live as long, one after the other. It may be any bytes.
class message_reader {
 public:
  explicit message_reader(std::string_view text) : rest_(text) {}
  // False: at the end, or what follows is not a field.
  bool next(message_field& out);
  [[nodiscard]] bool is_broken() const { return is_broken_; }

 private:
  bool varint(std::uint64_t& out);
  bool skip(std::size_t bytes);

  std::string_view rest_;
  bool is_broken_ = false;
};

// The numbers of a repeated field, packed or alone, behind those of `to`. False: they are broken.
bool add_numbers(const message_field& field, std::vector<std::uint64_t>& to);

}  // namespace tarn::profiler::pprof
