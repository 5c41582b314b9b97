// SPDX-License-Identifier: MIT
#include "profiler/export/pprof_message.hpp"

#include <zlib.h>

#include "profiler/format/table_file.hpp"

namespace tarn::profiler::pprof {

bool message_reader::varint(std::uint64_t& out) {
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(rest_.data());
  const std::uint8_t* const end = get_varint(begin, begin + rest_.size(), out);
  if (end != nullptr) rest_.remove_prefix(static_cast<std::size_t>(end - begin));
  return end != nullptr;
}

bool message_reader::skip(std::size_t bytes) {
  if (bytes > rest_.size()) return false;
  rest_.remove_prefix(bytes);
  return true;
}

bool message_reader::next(message_field& out) {
  if (rest_.empty() || is_broken_) return false;
  enum kind : unsigned { a_number = 0, eight_bytes = 1, with_length = 2, four_bytes = 5 };
  const std::string_view from = rest_;
  std::uint64_t tag = 0;
  std::uint64_t value = 0;
  out = {};
  is_broken_ = true;
  if (!varint(tag) || tag >> 3 > UINT32_MAX) return false;
  out.number = static_cast<unsigned>(tag >> 3);
  switch (tag & 7) {
    case a_number:
      if (!varint(out.value)) return false;
      break;
    case with_length: {
      if (!varint(value)) return false;
      const std::string_view content = rest_;
      if (!skip(value)) return false;
      out.bytes = content.substr(0, value);
      break;
    }
    case eight_bytes:
      if (!skip(8)) return false;
      break;
    case four_bytes:
      if (!skip(4)) return false;
      break;
    default:
      return false;
  }
  out.whole = from.substr(0, from.size() - rest_.size());
  is_broken_ = false;
  return true;
}

std::string gzipped(const std::string& text) {
  z_stream stream{};
  constexpr int gzip = 16;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + gzip, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    throw profile_error("no memory to write the profile; raise the limit on memory: ulimit -v");
  }
  std::string packed;
  packed.resize(deflateBound(&stream, text.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int result = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END)
    throw profile_error(
        "the profile is too large for one message of pprof; export one process, or another format: --process, "
        "--collapsed");
  return packed;
}

}  // namespace tarn::profiler::pprof
