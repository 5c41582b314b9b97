// SPDX-License-Identifier: MIT
// unwind_table: the sorted table in a module's .eh_frame_hdr, which gives the start and the .eh_frame entry of each
// function.
// Thread safety: any thread; the module must stay loaded. Invariant: reads stay within the header's section.
#pragma once

#include <cstdint>
#include <cstring>

namespace tarn::unwind {

class unwind_table {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  // A null header, or one in another encoding than the one that linkers write, gives an empty table.
  explicit unwind_table(const unsigned char* header) : header_(header) {
    // Version 1; then 4 bytes each: start of .eh_frame, count, pairs of offsets.
    constexpr std::uint32_t usual = 0x3b031b01;
    if (header != nullptr && number_at(0) == usual) count_ = number_at(8);
  }

  // The last entry whose function begins at or before `pc`, or `none`.
  [[nodiscard]] std::uint32_t index_of(std::uintptr_t pc) const {
    if (count_ == 0 || pc < function(0)) return none;
    std::uint32_t low = 0;
    std::uint32_t high = count_;
    while (high - low > 1) {
      const std::uint32_t middle = low + (high - low) / 2;
      (pc < function(middle) ? high : low) = middle;
    }
    return low;
  }
  // Whether index_of(pc) is `index`.
  [[nodiscard]] bool is_index_of(std::uint32_t index, std::uintptr_t pc) const {
    return index < count_ && pc >= function(index) && (index + 1 == count_ || pc < function(index + 1));
  }
  [[nodiscard]] const unsigned char* entry(std::uint32_t index) const {
    return reinterpret_cast<const unsigned char*>(address_at(first_pair + pair_bytes * index + 4));
  }

 private:
  static constexpr std::uintptr_t first_pair = 12;
  static constexpr std::uintptr_t pair_bytes = 8;

  [[nodiscard]] std::uint32_t number_at(std::uintptr_t offset) const {
    std::uint32_t number = 0;
    std::memcpy(&number, header_ + offset, sizeof number);
    return number;
  }
  [[nodiscard]] std::uintptr_t address_at(std::uintptr_t offset) const {
    const auto from_header = static_cast<std::int32_t>(number_at(offset));
    return reinterpret_cast<std::uintptr_t>(header_) +
           static_cast<std::uintptr_t>(static_cast<std::intptr_t>(from_header));
  }
  [[nodiscard]] std::uintptr_t function(std::uint32_t index) const {
    return address_at(first_pair + pair_bytes * index);
  }

  const unsigned char* header_;
  std::uint32_t count_ = 0;
};

}  // namespace tarn::unwind
