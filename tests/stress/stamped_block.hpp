// SPDX-License-Identifier: MIT
// stamped_block: a block filled with a pattern made of its number. A changed pattern shows that the block was handed
// out twice, or that somebody else wrote to it. block_queue hands such blocks from thread to thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>

#include "tarn/malloc.h"

namespace tarn::testing_support {

struct stamped_block {
  unsigned char* bytes = nullptr;
  std::size_t size = 0;
  std::uint64_t number = 0;

  // Visits every word of a small block, and at least 64 evenly spaced words of a block of 1 KiB or more.
  template <class Visit>
  bool for_each_word(Visit visit) const {
    const std::size_t words = size / sizeof number;
    const std::size_t step = words < 128 ? 1 : words / 64;
    for (std::size_t i = 0; i < words; i += step) {
      if (!visit(bytes + i * sizeof number, number * 0x9e3779b97f4a7c15U + i)) return false;
    }
    return true;
  }
  void stamp() const {
    for_each_word([](unsigned char* at, std::uint64_t value) {
      std::memcpy(at, &value, sizeof value);
      return true;
    });
    if (size != 0) bytes[size - 1] = static_cast<unsigned char>(number);
  }
  [[nodiscard]] bool intact() const {
    if (size != 0 && bytes[size - 1] != static_cast<unsigned char>(number)) return false;
    const bool whole_words = size % sizeof number == 0;
    const std::size_t last = size / sizeof number - 1;
    return for_each_word([this, whole_words, last](const unsigned char* at, std::uint64_t value) {
      std::uint64_t found = 0;
      std::memcpy(&found, at, sizeof found);
      // stamp() has overwritten the block's last byte, which is the highest of the last word here.
      if (whole_words && at == bytes + last * sizeof found) {
        found = (found << 8) >> 8;
        value = (value << 8) >> 8;
      }
      return found == value;
    });
  }
};

// Blocks on their way from thread to thread.
class block_queue {
 public:
  void put(const stamped_block& b) {
    const std::lock_guard guard(lock_);
    blocks_.push_back(b);
  }
  bool take(stamped_block& b) {
    const std::lock_guard guard(lock_);
    if (blocks_.empty()) return false;
    b = blocks_.front();
    blocks_.pop_front();
    return true;
  }

 private:
  std::mutex lock_;
  std::deque<stamped_block> blocks_;
};

}  // namespace tarn::testing_support
