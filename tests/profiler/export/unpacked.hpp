// SPDX-License-Identifier: MIT
// unpacked(): what a gzip stream of an export holds.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

namespace tarn::profiler {

inline std::string unpacked(const std::string& packed) {
  std::string text(std::size_t{10} << 20, '\0');
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

}  // namespace tarn::profiler
