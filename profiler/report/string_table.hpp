// SPDX-License-Identifier: MIT
// string_table: stores each text once and numbers it; number 0 is the empty text. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tarn::profiler {

class string_table {
 public:
  // Longer texts are cut and marked, as template names may have any length.
  static constexpr std::size_t most_bytes = 2000;

  string_table() { number_of({}); }
  string_table(const string_table&) = delete;  // its keys are views of its own texts
  string_table& operator=(const string_table&) = delete;

  std::uint32_t number_of(std::string_view text) {
    if (text.size() > most_bytes) return number_of_whole(cut(text));
    return number_of_whole(text);
  }

  // Texts by number. A deque, as the map's keys point into it.
  const std::deque<std::string>& texts() const noexcept { return texts_; }

 private:
  static std::string cut(std::string_view text) {
    std::size_t end = most_bytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    return std::string(text.substr(0, end)) + " …";
  }

  std::uint32_t number_of_whole(std::string_view text) {
    const auto known = numbers_.find(text);
    if (known != numbers_.end()) return known->second;
    const auto number = static_cast<std::uint32_t>(texts_.size());
    numbers_.emplace(texts_.emplace_back(text), number);
    return number;
  }

  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

}  // namespace tarn::profiler
