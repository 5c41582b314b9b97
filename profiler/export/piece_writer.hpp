// SPDX-License-Identifier: MIT
// piece_writer: buffers text and passes it on in large pieces, so that an export of any length takes little memory.
// For one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace tarn::profiler {

class piece_writer {
 public:
  // `take` is called with each piece. Requires: flush() is called after the last write().
  explicit piece_writer(std::function<void(std::string_view)> take) : take_(std::move(take)) {}
  piece_writer(const piece_writer&) = delete;
  piece_writer& operator=(const piece_writer&) = delete;

  void write(std::string_view text) {
    text_ += text;
    if (text_.size() > piece_bytes) flush();
  }
  // Passes on the buffered text.
  void flush() {
    if (!text_.empty()) take_(text_);
    text_.clear();
  }

 private:
  static constexpr std::size_t piece_bytes = 1 << 20;

  std::function<void(std::string_view)> take_;
  std::string text_;
};

}  // namespace tarn::profiler
