// SPDX-License-Identifier: MIT
// The fuzzer's model of the memory that it holds: each block has a number, and its bytes are stamped with a pattern
// made of that number, so that foreign writes and memory handed out twice are detected. Also the input's reader.
//
// Thread safety: none; the fuzzer runs one operation at a time, in one of its threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

namespace tarn::fuzz {

[[noreturn]] inline void fail(const char* what, const void* where) {
  std::fprintf(stderr, "FAILED: %s: %p\n", what, where);
  std::abort();
}
inline void require(bool holds, const char* what, const void* where = nullptr) {
  if (!holds) fail(what, where);
}

// The bytes of the input, one after another; 0 after the end.
class input {
 public:
  input(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}
  [[nodiscard]] bool at_end() const { return at_ == end_; }
  std::uint8_t byte() { return at_end() ? 0 : *at_++; }
  std::uint32_t below(std::uint32_t limit) { return (byte() | std::uint32_t{byte()} << 8) % limit; }
  // A size up to about 4 MiB; every power of two is equally likely.
  std::size_t bytes() {
    const unsigned magnitude = byte() % 23;
    return ((std::size_t{1} << magnitude) + below(65536) % (std::size_t{1} << magnitude)) -
           (byte() % 4 == 0 ? 1 : 0);
  }
  std::size_t alignment() { return std::size_t{1} << (byte() % 17); }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

// One piece of memory that the program holds.
struct held {
  unsigned char* bytes = nullptr;
  std::size_t size = 0;
  std::size_t alignment = 1;
  std::uint64_t number = 0;

  [[nodiscard]] unsigned char stamp_at(std::size_t i) const {
    return static_cast<unsigned char>((number + i / 8) * 0x9e3779b97f4a7c15U >> (56 - i % 8));
  }
  // In a long block: the first 512 bytes, the last 1024, and every 509th byte in between.
  template <class Visit>
  void for_each_byte(std::size_t end, Visit visit) const {
    for (std::size_t i = 0; i < end; i += i < 512 || i + 1024 > end ? 1 : 509) visit(i);
  }
  void stamp() const {
    for_each_byte(size, [this](std::size_t i) { bytes[i] = stamp_at(i); });
  }
  void check(std::size_t end) const {
    // Visits the same bytes as stamp(), though only those below `end` must have kept their value.
    for_each_byte(size, [this, end](std::size_t i) {
      require(i >= end || bytes[i] == stamp_at(i), "a byte of a live block has changed", bytes + i);
    });
  }
  void check() const { check(size); }
};

// All pieces of memory from one source. Checks that no two pieces, of all sources with the same `ranges`, overlap.
class live_set {
 public:
  explicit live_set(std::map<std::uintptr_t, std::uintptr_t>& ranges) : ranges_(ranges) {}

  held& add(void* memory, std::size_t size, std::size_t alignment, std::uint64_t number) {
    const auto start = reinterpret_cast<std::uintptr_t>(memory);
    require(memory != nullptr, "null instead of memory");
    require(start % alignment == 0, "not aligned", memory);
    const auto next = ranges_.lower_bound(start);
    require(next == ranges_.end() || next->first >= start + size, "overlaps a block after it", memory);
    require(next == ranges_.end() || next->first != start || size == 0, "handed out twice", memory);
    require(next == ranges_.begin() || std::prev(next)->second <= start, "overlaps a block before it",
            memory);
    if (size != 0) ranges_[start] = start + size;
    all_.push_back({static_cast<unsigned char*>(memory), size, alignment, number});
    all_.back().stamp();
    return all_.back();
  }
  // Removes one piece, after a check of its bytes.
  held take(std::size_t index) {
    held out = all_[index];
    out.check();
    all_[index] = all_.back();
    all_.pop_back();
    if (out.size != 0) ranges_.erase(reinterpret_cast<std::uintptr_t>(out.bytes));
    return out;
  }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] bool empty() const { return all_.empty(); }
  [[nodiscard]] const held& operator[](std::size_t index) const { return all_[index]; }
  void check() const {
    for (const held& one : all_) one.check();
  }

 private:
  std::map<std::uintptr_t, std::uintptr_t>& ranges_;
  std::vector<held> all_;
};

}  // namespace tarn::fuzz
