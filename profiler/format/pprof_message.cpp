// SPDX-License-Identifier: MIT
#include "profiler/format/pprof_message.hpp"

#include <vector>

#include "base/varint.hpp"

namespace tarn::profiler::pprof {

void message::fixed(unsigned field, std::uint64_t value) {
  std::uint8_t tag[most_varint_bytes];
  append(tag, static_cast<std::size_t>(put_varint(tag, field << 3U | 1U) - tag));
  for (unsigned shift = 0; shift < 64; shift += 8) text_ += static_cast<char>(value >> shift & 255U);
}

bool add_numbers(const message_field& field, std::vector<std::uint64_t>& to) {
  if (field.bytes.data() == nullptr) {
    to.push_back(field.value);
    return true;
  }
  const auto* at = reinterpret_cast<const std::uint8_t*>(field.bytes.data());
  const std::uint8_t* const end = at + field.bytes.size();
  while (at != end) {
    std::uint64_t value = 0;
    at = get_varint(at, end, value);
    if (at == nullptr) return false;
    to.push_back(value);
  }
  return true;
}

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
    default: return false;
  }
  out.whole = from.substr(0, from.size() - rest_.size());
  is_broken_ = false;
  return true;
}

}  // namespace tarn::profiler::pprof
