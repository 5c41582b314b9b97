// SPDX-License-Identifier: MIT
// slot_layout: the slot_class of a pool. Its slots lie in its spans from the span's start on, without gaps:
//
//     start   + size  + 2*size                         end
//     | slot 0 | slot 1 | slot 2 | ...       | left over |
//
// Thread safety: constant after construction. Invariant: size is a multiple of alignment, and those of slot_class.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "os/invariant.hpp"
#include "pages/span.hpp"
#include "slots/objects.hpp"
#include "slots/slot_class.hpp"

namespace tarn {

struct slot_layout : slot_class {
  std::size_t alignment = 0;

  // Tunable. With smaller slots, the span's free bits would take more memory than is saved.
  static constexpr std::size_t least_size = 4;
  // Spans grow with the pool between these bounds, so that a small pool takes little memory and a large one has few
  // spans.
  static constexpr std::size_t least_span_bytes = 8 * kib;
  static constexpr std::size_t most_span_bytes = 64 * kib;
  static constexpr std::size_t growth_divisor = 8;
  static constexpr std::size_t most_objects = 4096;
  static constexpr std::size_t most_objects_huge = 32768;

  constexpr slot_layout() = default;
  // `length`: of magazines; 0: that of malloc's class of the size.
  constexpr slot_layout(std::size_t bytes, std::size_t align, std::size_t length = 0)
      : slot_class(align_up(bytes < least_size ? least_size : bytes, align)), alignment(align) {
    if (length != 0) magazine = static_cast<std::uint8_t>(length);
  }

  void validate() const {
    const wide product = wide{reciprocal} * size;
    TARN_INVARIANT("slot_layout", this, size >= least_size && size % alignment == 0);
    TARN_INVARIANT("slot_layout", this, product >> 64 == 1 && static_cast<std::uint64_t>(product) < size);
  }

  // The pages of the next span of a pool that has `pool_bytes` bytes of spans.
  [[nodiscard]] std::size_t span_pages(std::size_t pool_bytes, std::size_t objects_per_span,
                                       bool huge) const {
    std::size_t bytes = least_span_bytes;
    if (huge) {
      bytes = huge_page_size;
    } else {
      while (bytes < most_span_bytes && bytes * growth_divisor < pool_bytes) bytes *= 2;
      while (bytes > least_span_bytes && bytes / size > most_objects) bytes /= 2;
    }
    const std::size_t most = most_in_span(huge);
    const std::size_t least_bytes = size * (objects_per_span < most ? objects_per_span : most);
    return pages_well_filled(pages_for(bytes > least_bytes ? bytes : least_bytes), size);
  }
  [[nodiscard]] std::size_t slots_in(std::size_t pages, bool huge) const {
    const std::size_t fit = (pages << page_shift) / size;
    return fit < most_in_span(huge) ? fit : most_in_span(huge);
  }
  // The most slots of a span. find() is exact while the slots' bytes times `size` are below 2^64: the rounding error of
  // reciprocal * size against 2^64 is less than `size`, and adds up once per slot before the address.
  [[nodiscard]] constexpr std::size_t most_in_span(bool huge) const {
    const std::size_t most = huge ? most_objects_huge : most_objects;
    const std::size_t exact = ~std::uint64_t{0} / size / size;
    return exact < most ? exact : most;
  }
  static constexpr std::size_t largest_size = std::size_t{1} << 30;
  static_assert(~std::uint64_t{0} / largest_size / largest_size >= 1);

  [[nodiscard]] void* at(const span* s, std::size_t index) const {
    return reinterpret_cast<void*>(s->start + index * size);
  }
  struct position {
    std::size_t index;
    bool is_exact;  // the address is the begin of the slot
  };
  // The slot in which the address lies.
  [[nodiscard]] position find(const span* s, std::uintptr_t address) const {
    const wide product = wide{address - s->start} * reciprocal;
    return {static_cast<std::size_t>(product >> objects::bits_per_word),
            static_cast<std::uint64_t>(product) < reciprocal};
  }
};

}  // namespace tarn
