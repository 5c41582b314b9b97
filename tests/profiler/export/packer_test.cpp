// SPDX-License-Identifier: MIT
// Text compressed in pieces comes back whole.
#include "profiler/export/packer.hpp"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <vector>

namespace tarn::profiler {
namespace {

std::string packed(std::string_view name, const std::vector<std::string>& pieces) {
  std::string bytes;
  packer pack(name, [&bytes](const std::string& piece) {
    EXPECT_FALSE(piece.empty());
    bytes += piece;
  });
  for (const std::string& each : pieces) pack.write(each);
  pack.finish();
  return bytes;
}

std::string gunzipped(const std::string& bytes) {
  std::string text(10 << 20, '\0');
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

std::string unzstd(const std::string& bytes) {
  std::string text(10 << 20, '\0');
  const std::size_t size = ZSTD_decompress(text.data(), text.size(), bytes.data(), bytes.size());
  EXPECT_EQ(ZSTD_isError(size), 0U);
  text.resize(size);
  return text;
}

// More than the packer's buffers hold, and hardly compressible.
std::string long_text() {
  std::string text;
  for (std::uint32_t state = 1; text.size() < 1'000'000; state = state * 1664525 + 1013904223)
    text += static_cast<char>(state >> 24);
  return text;
}

TEST(packer, compresses_as_the_name_says) {
  const std::string text(3000000, 'x');
  for (const auto& [name, magic] : {std::pair{"a.gz", "\x1f\x8b"}, {"a.zst", "\x28\xb5"}, {"a", "xx"}}) {
    std::string packed;
    packer pack(name, [&packed](const std::string& piece) { packed += piece; });
    for (std::size_t part = 0; part < 3; ++part)
      pack.write(std::string_view(text).substr(1000000 * part, 1000000));
    pack.finish();
    EXPECT_EQ(packed.substr(0, 2), magic) << name;
    EXPECT_EQ(packed.size() == text.size(), std::string_view(name) == "a") << name;
  }
}

TEST(packer, what_was_packed_comes_back) {
  const std::string text = long_text();
  const std::vector<std::string> pieces = {text, "", "end", text};
  const std::string all = text + "end" + text;
  EXPECT_TRUE(gunzipped(packed("a.gz", pieces)) == all);
  EXPECT_TRUE(unzstd(packed("a.zst", pieces)) == all);
  EXPECT_TRUE(packed("a.gz.txt", pieces) == all);
}

TEST(packer, nothing_is_an_empty_file_of_its_format) {
  EXPECT_EQ(gunzipped(packed("a.gz", {})), "");
  EXPECT_EQ(unzstd(packed("a.zst", {})), "");
  EXPECT_EQ(packed("a", {}), "");
}

}  // namespace
}  // namespace tarn::profiler
