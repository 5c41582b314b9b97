// SPDX-License-Identifier: MIT
// protobuf: writes messages in protobuf's wire format, in memory of a fixed size and in pieces.
//
// Owner: a local variable. Thread safety: used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/protobuf.hpp"

namespace tarn::protobuf {

// Collects bytes and passes them on in pieces.
class output {
 public:
  using receiver = void (*)(void* context, const char* data, std::size_t n);

  output(receiver write, void* context) : write_(write), context_(context) {}

  void put(const void* data, std::size_t n) {
    const char* from = static_cast<const char*>(data);
    while (n != 0) {
      if (used_ == sizeof buffer_) flush();
      const std::size_t part = n < sizeof buffer_ - used_ ? n : sizeof buffer_ - used_;
      std::memcpy(buffer_ + used_, from, part);
      used_ += part;
      from += part;
      n -= part;
    }
  }
  void flush() {
    if (used_ != 0) write_(context_, buffer_, used_);
    used_ = 0;
  }

 private:
  receiver write_;
  void* context_;
  std::size_t used_ = 0;
  char buffer_[4096];
};

// A message in memory. Fields that do not fit are left out, and complete() is false.
template <std::size_t Capacity>
class message : public message_fields<message<Capacity>> {
 public:
  void append(const void* data, std::size_t n) {
    complete_ = complete_ && n <= Capacity - size_;
    if (!complete_) return;
    std::memcpy(content_ + size_, data, n);
    size_ += n;
  }
  // Writes the message as a field of the outermost message.
  void write(output& to, unsigned field) const {
    message<20> before;
    before.head(field, size_).write_content(to);
    write_content(to);
  }
  void write_content(output& to) const { to.put(content_, size_); }

  [[nodiscard]] bool complete() const { return complete_; }

 private:
  std::size_t size_ = 0;
  bool complete_ = true;
  char content_[Capacity];
};

// Writes a string as a field of the outermost message.
inline void write_text(output& to, unsigned field, std::string_view value) {
  message<20>().head(field, value.size()).write_content(to);
  to.put(value.data(), value.size());
}

}  // namespace tarn::protobuf
