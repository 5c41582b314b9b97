// SPDX-License-Identifier: MIT
#include "tests/profiler/mutate.hpp"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "profiler/format/chunk.hpp"

namespace tarn::profiler {

std::uint64_t mutator::below(std::uint64_t bound) {
  // xorshift64*: good enough to choose places.
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return (state_ * 0x2545f4914f6cdd1dU >> 11) % bound;
}

void mutator::mutate(std::vector<std::uint8_t>& bytes) {
  for (std::uint64_t count = 1 + below(4); count != 0; --count) mutate_once(bytes);
}

void mutator::mutate_once(std::vector<std::uint8_t>& bytes) {
  if (bytes.empty()) {
    bytes.push_back(static_cast<std::uint8_t>(below(256)));
    return;
  }
  constexpr std::array<std::uint8_t, 8> notable = {0, 1, 0x7f, 0x80, 0x81, 0xff, 0x10, 0x40};
  // Half of the changes are in the first 64 bytes, where lengths and kinds are.
  const std::size_t range = below(2) == 0 ? std::min<std::size_t>(bytes.size(), 64) : bytes.size();
  const auto at = static_cast<std::ptrdiff_t>(below(range));
  const auto length = static_cast<std::ptrdiff_t>(
      std::min<std::uint64_t>(1 + below(16), bytes.size() - static_cast<std::size_t>(at)));
  switch (below(7)) {
    case 0: bytes[static_cast<std::size_t>(at)] ^= static_cast<std::uint8_t>(1U << below(8)); break;
    case 1: bytes[static_cast<std::size_t>(at)] = notable[below(notable.size())]; break;
    case 2: std::fill_n(bytes.begin() + at, length, notable[below(notable.size())]); break;
    case 3: bytes.erase(bytes.begin() + at, bytes.begin() + at + length); break;
    case 4: {
      const std::vector<std::uint8_t> again(bytes.begin() + at, bytes.begin() + at + length);
      bytes.insert(bytes.begin() + at, again.begin(), again.end());
      break;
    }
    case 5: bytes.resize(static_cast<std::size_t>(at)); break;
    default: bytes[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(below(256)); break;
  }
}

std::vector<plain_chunk> take_apart(const std::vector<std::uint8_t>& file) {
  std::vector<plain_chunk> chunks;
  std::size_t at = file_header_bytes;
  while (at < file.size()) {
    chunk_header header;
    if (!unpack_header(file.data() + at, header)) std::abort();
    plain_chunk one{.rows = header.rows, .flags = header.flags};
    at += chunk_header_bytes;
    one.name.assign(reinterpret_cast<const char*>(file.data()) + at, header.name_bytes);
    at += header.name_bytes;
    one.payload.resize(header.unpacked);
    if ((header.flags & stored_flag) != 0) {
      std::copy_n(file.data() + at, header.stored, one.payload.begin());
    } else if (ZSTD_decompress(one.payload.data(), one.payload.size(), file.data() + at, header.stored) !=
               header.unpacked) {
      std::abort();
    }
    at += header.stored;
    chunks.push_back(std::move(one));
  }
  return chunks;
}

std::vector<std::uint8_t> put_together(const std::vector<plain_chunk>& chunks) {
  std::vector<std::uint8_t> file(file_header_bytes);
  std::copy(file_magic.begin(), file_magic.end(), file.begin());
  put_number(file.data() + 8, format_major);
  for (const plain_chunk& one : chunks) {
    chunk_header header;
    header.stored = header.unpacked = static_cast<std::uint32_t>(one.payload.size());
    header.rows = one.rows;
    header.flags = one.flags | stored_flag;
    header.name_bytes = static_cast<std::uint8_t>(one.name.size());
    header.payload_check =
        static_cast<std::uint32_t>(crc32(0, one.payload.data(), static_cast<uInt>(one.payload.size())));
    const auto bytes = pack_header(header, one.name);
    file.insert(file.end(), bytes.begin(), bytes.end());
    file.insert(file.end(), one.name.begin(), one.name.end());
    file.insert(file.end(), one.payload.begin(), one.payload.end());
  }
  return file;
}

}  // namespace tarn::profiler
