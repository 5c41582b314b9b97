// SPDX-License-Identifier: MIT
// protobuf: fields of a message in protobuf's wire format: varints, byte strings and packed numbers.
#pragma once

#include <string_view>

#include "base/varint.hpp"

namespace tarn::protobuf {

// Of a message that has append(const void* data, std::size_t bytes). Returns the message.
template <class Message>
class message_fields {
 public:
  Message& number(unsigned field, std::uint64_t value) {
    if (value != 0) varint(field << 3U).varint(value);  // 0 is the default
    return self();
  }
  Message& text(unsigned field, std::string_view value) {
    head(field, value.size());
    self().append(value.data(), value.size());
    return self();
  }
  // A packed repeated field.
  template <class Value>
  Message& numbers(unsigned field, const Value* values, std::size_t count) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < count; ++i) length += varint_bytes(values[i]);
    head(field, length);
    for (std::size_t i = 0; i < count; ++i) varint(values[i]);
    return self();
  }
  // What stands before `length` bytes.
  Message& head(unsigned field, std::size_t length) {
    varint(field << 3U | 2U).varint(length);
    return self();
  }

 private:
  message_fields& varint(std::uint64_t value) {
    std::uint8_t bytes[most_varint_bytes];
    self().append(bytes, static_cast<std::size_t>(put_varint(bytes, value) - bytes));
    return *this;
  }
  Message& self() { return static_cast<Message&>(*this); }
};

}  // namespace tarn::protobuf
