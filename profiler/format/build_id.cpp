// SPDX-License-Identifier: MIT
#include "profiler/format/build_id.hpp"

namespace tarn::profiler {

std::string build_id_text(std::string_view bytes) {
  std::string text;
  for (const char one : bytes) {
    constexpr const char* digits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(one);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

}  // namespace tarn::profiler
