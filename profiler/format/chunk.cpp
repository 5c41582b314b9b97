// SPDX-License-Identifier: MIT
#include "profiler/format/chunk.hpp"

#include <zlib.h>

namespace tarn::profiler {

std::uint32_t check_of_header(const std::uint8_t* bytes, std::string_view name) {
  uLong check = crc32(0, bytes + 8, chunk_header_bytes - 8);
  check = crc32(check, reinterpret_cast<const Bytef*>(name.data()), static_cast<uInt>(name.size()));
  return static_cast<std::uint32_t>(check);
}

std::array<std::uint8_t, chunk_header_bytes> pack_header(const chunk_header& header, std::string_view name) {
  std::array<std::uint8_t, chunk_header_bytes> bytes{};
  put_number(bytes.data(), chunk_magic);
  put_number(bytes.data() + 8, header.stored);
  put_number(bytes.data() + 12, header.unpacked);
  put_number(bytes.data() + 16, header.rows);
  put_number(bytes.data() + 20, header.payload_check);
  bytes[24] = header.flags;
  bytes[25] = header.name_bytes;
  put_number(bytes.data() + 4, check_of_header(bytes.data(), name));
  return bytes;
}

bool unpack_header(const std::uint8_t* bytes, chunk_header& header) {
  if (get_number<std::uint32_t>(bytes) != chunk_magic) return false;
  header.check = get_number<std::uint32_t>(bytes + 4);
  header.stored = get_number<std::uint32_t>(bytes + 8);
  header.unpacked = get_number<std::uint32_t>(bytes + 12);
  header.rows = get_number<std::uint32_t>(bytes + 16);
  header.payload_check = get_number<std::uint32_t>(bytes + 20);
  header.flags = bytes[24];
  header.name_bytes = bytes[25];
  return true;
}

}  // namespace tarn::profiler
