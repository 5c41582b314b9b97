// SPDX-License-Identifier: MIT
// text_writer, text_buffer: build a line of text in a fixed array, without stdio, locale or allocation. Text beyond the
// capacity is dropped, but size() counts it, so that the caller can tell.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tarn {

// text.substr(), which throws if `begin` is beyond the end; here the part is then empty.
inline std::string_view part_of(std::string_view text, std::size_t begin,
                                std::size_t length = std::string_view::npos) {
  begin = std::min(begin, text.size());
  return {text.data() + begin, std::min(length, text.size() - begin)};
}

// Removes the part before `separator`, and the separator, from `text`; returns the part. Without a separator: all of it.
inline std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view part = part_of(text, 0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

// Of digits alone, the letters small.
constexpr std::uint64_t hexadecimal(std::string_view text) {
  std::uint64_t value = 0;
  for (const char c : text) {
    const unsigned digit = c >= 'a' ? static_cast<unsigned>(c - 'a') + 10 : static_cast<unsigned>(c - '0');
    value = value << 4U | (digit & 15U);
  }
  return value;
}

// Removes the decimal number at the beginning of `text`. False: there is no digit, or the number is 2^64 or more.
constexpr bool take_number(std::string_view& text, std::uint64_t& out) {
  std::uint64_t value = 0;
  std::size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    if (__builtin_mul_overflow(value, 10U, &value) ||
        __builtin_add_overflow(value, static_cast<unsigned>(text[digits] - '0'), &value))
      return false;
  }
  text.remove_prefix(digits);
  out = value;
  return digits != 0;
}

// Copies `text` with small letters, and a null byte behind it. False: there is no room.
template <std::size_t room>
bool copy_lower(std::string_view text, char (&out)[room]) {
  if (text.size() >= room) return false;
  char* end = out;
  for (const char c : text) *end++ = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  *end = '\0';
  return true;
}

class text_writer {
 public:
  text_writer(char* buffer, std::size_t capacity) : buffer_(buffer), capacity_(capacity) {}

  text_writer& put(char c) {
    if (size_ < capacity_) buffer_[size_] = c;
    ++size_;
    return *this;
  }
  text_writer& put(const char* text) {
    for (; *text != '\0'; ++text) put(*text);
    return *this;
  }
  text_writer& put(std::string_view text) {
    const std::size_t room = capacity_ - stored();
    if (!text.empty() && room != 0) std::memcpy(buffer_ + size_, text.data(), std::min(room, text.size()));
    size_ += text.size();
    return *this;
  }
  // For what stands between quotation marks.
  text_writer& put_escaped(std::string_view text) {
    for (const char c : text) {
      if (c == '"' || c == '\\') put('\\');
      put(static_cast<unsigned char>(c) < 0x20 ? '?' : c);
    }
    return *this;
  }
  text_writer& number(std::uint64_t value) {
    char digits[20];
    unsigned count = 0;
    do {
      digits[count++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    while (count != 0) put(digits[--count]);
    return *this;
  }
  text_writer& signed_number(std::int64_t value) {
    if (value < 0) put('-');
    return number(value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value));
  }
  text_writer& pointer(const void* p) {
    put("0x");
    const auto value = reinterpret_cast<std::uintptr_t>(p);
    bool started = false;
    for (int shift = 60; shift >= 0; shift -= 4) {
      const auto digit = static_cast<unsigned>((value >> shift) & 15U);
      started = started || digit != 0 || shift == 0;
      if (started) put("0123456789abcdef"[digit]);
    }
    return *this;
  }

  // Characters put so far, including those that did not fit.
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t stored() const { return size_ < capacity_ ? size_ : capacity_; }
  [[nodiscard]] const char* data() const { return buffer_; }
  void clear() { size_ = 0; }

 private:
  char* buffer_;
  std::size_t capacity_;
  std::size_t size_ = 0;
};

// A text_writer with its own array.
template <std::size_t Capacity>
class text_buffer : public text_writer {
 public:
  text_buffer() : text_writer(storage_, Capacity) {}
  text_buffer(const text_buffer&) = delete;
  text_buffer& operator=(const text_buffer&) = delete;

 private:
  char storage_[Capacity];
};

}  // namespace tarn
