// SPDX-License-Identifier: MIT
// packer: compresses text in pieces, as the file's name asks for: ".gz", ".zst", or not at all.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace tarn::profiler {

class packer {
 public:
  // `take` gets the bytes of the file. Throws profile_error if there is no memory.
  packer(std::string_view path, std::function<void(const std::string&)> take);
  ~packer();
  packer(const packer&) = delete;
  packer& operator=(const packer&) = delete;

  void write(std::string_view piece) { pack(piece, false); }
  void finish() { pack({}, true); }  // once, at the end

 private:
  struct stream;

  void pack(std::string_view piece, bool ends);

  std::function<void(const std::string&)> take_;
  std::unique_ptr<stream> stream_;
};

// A message of pprof as a file. Throws profile_error: no memory, or it is too large.
std::string gzipped(const std::string& text);

// Buffers text and passes it on in large pieces, so that an export of any length takes little memory.
// For one thread.
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
