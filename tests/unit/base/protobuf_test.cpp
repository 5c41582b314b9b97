// SPDX-License-Identifier: MIT
// protobuf and varint: the wire format of fields, numbers of all lengths, and what is no number.
#include "base/protobuf.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace tarn {
namespace {

struct text_message : protobuf::message_fields<text_message> {
  void append(const void* data, std::size_t bytes) { out.append(static_cast<const char*>(data), bytes); }
  std::string out;
};

TEST(protobuf, writes_fields) {
  text_message message;
  const std::uint64_t packed[] = {1, 128};
  message.number(1, 150).number(2, 0).text(3, "abc").numbers(4, packed, 2);
  EXPECT_EQ(message.out, std::string_view("\x08\x96\x01\x1a\x03"
                                          "abc\x22\x03\x01\x80\x01"));
}

TEST(varint, reads_what_it_writes) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    for (const std::uint64_t value : {std::uint64_t{1} << bit, (std::uint64_t{1} << bit) - 1}) {
      std::uint8_t bytes[most_varint_bytes];
      const std::uint8_t* const end = put_varint(bytes, value);
      EXPECT_EQ(static_cast<std::size_t>(end - bytes), varint_bytes(value));
      std::uint64_t read = 0;
      EXPECT_EQ(get_varint(bytes, end, read), end);
      EXPECT_EQ(read, value);
      EXPECT_EQ(get_varint(bytes, end - 1, read), nullptr) << "cut off";
    }
  }
}

TEST(varint, refuses_more_than_64_bits) {
  const std::uint8_t bytes[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
  std::uint64_t read = 0;
  EXPECT_EQ(get_varint(bytes, bytes + sizeof bytes, read), nullptr);
}

}  // namespace
}  // namespace tarn
