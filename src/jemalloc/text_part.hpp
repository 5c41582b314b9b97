// SPDX-License-Identifier: MIT
// text_part: a part of a text. std::string_view::substr() would link libstdc++, for its exception.
#pragma once

#include <string_view>

namespace tarn::jemalloc {

// The `count` characters from `from` on, or fewer, where the text ends. Requires: from <= text.size().
constexpr std::string_view part_of(std::string_view text, std::size_t from,
                                   std::size_t count = std::string_view::npos) {
  const std::size_t left = text.size() - from;
  return {text.data() + from, count < left ? count : left};
}

}  // namespace tarn::jemalloc
