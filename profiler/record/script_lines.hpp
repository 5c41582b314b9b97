// SPDX-License-Identifier: MIT
// script_lines: the numbers of the source lines that a thread has seen, so that a line is read and sent once. Owned by
// one thread, in zeroed memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "profiler/model/script_address.hpp"
#include "profiler/record/script_frame.hpp"

namespace tarn::profiler {

class script_lines {
 public:
  // `describe(frame, place)` is called for a frame that is not known.
  template <class Describe>
  std::uint64_t address_of(const script_frame& frame, Describe describe) {
    const std::uint64_t key = (frame.code ^ frame.instruction << 20) * 0x9e3779b97f4a7c15U;
    known_line& kept = lines_[key >> 32 & (known_lines - 1)];
    if (kept.code == frame.code && kept.instruction == frame.instruction && kept.check == frame.check)
      return kept.address;
    script_place place;
    describe(frame, place);
    const std::string_view function(place.text, place.function_bytes);
    const std::string_view file(place.text + place.function_bytes, place.file_bytes);
    kept = {frame.code, frame.instruction, frame.check, script_address(function, file, place.line)};
    return kept.address;
  }
  // Whether the line has not been sent to the collector yet (some are forgotten and sent again); marks it as sent.
  bool is_new(std::uint64_t address) {
    std::uint64_t& sent = sent_[address & (sent_lines - 1)];
    const bool was_sent = sent == address;
    sent = address;
    return !was_sent;
  }

 private:
  struct known_line {
    std::uintptr_t code;
    std::uintptr_t instruction;
    std::uintptr_t check;
    std::uint64_t address;
  };
  static constexpr std::size_t known_lines = 2048;  // powers of two
  static constexpr std::size_t sent_lines = 1024;

  known_line lines_[known_lines];
  std::uint64_t sent_[sent_lines];
};

}  // namespace tarn::profiler
