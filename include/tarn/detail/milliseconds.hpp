// SPDX-License-Identifier: MIT
// milliseconds: the type of times in options. It takes every duration of std::chrono, and does not include <chrono>, which takes
// compilers twice as long as tarn/scope.hpp.
//
// Thread safety: a value. Cost: none, for constants.
#pragma once

#include "tarn/detail/abi.hpp"

#include <climits>
#include <cstdint>
#include <type_traits>

namespace tarn {
TARN_NAMESPACE_BEGIN

// A time in whole milliseconds: what a std::chrono::duration is, rounded up. A time that is too long becomes the longest.
class milliseconds {
 public:
  constexpr milliseconds() noexcept = default;
  template <class Duration>
    requires requires(const Duration& time) {
      time.count();
      Duration::period::num;
      Duration::period::den;
    }
  constexpr milliseconds(const Duration& time) noexcept  // NOLINT(google-explicit-constructor)
      : count_(scaled(time.count(), Duration::period::num, Duration::period::den)) {}
  // (Not deleted: Clang would say that options cannot be converted, and not why.)
  template <class Number>
    requires std::is_arithmetic_v<Number>
  constexpr milliseconds(Number /*count*/) noexcept {  // NOLINT(google-explicit-constructor)
    static_assert(std::is_void_v<Number>,
                  "tarn: a time has a unit: write std::chrono::milliseconds(2000), or 2s");
  }

  [[nodiscard]] static constexpr milliseconds of(std::int64_t count) noexcept {
    milliseconds made;
    made.count_ = count;
    return made;
  }

  [[nodiscard]] constexpr std::int64_t count() const noexcept { return count_; }
  // The nearest number that an unsigned holds.
  [[nodiscard]] constexpr unsigned count_or_limit() const noexcept {
    if (count_ <= 0) return 0;
    return count_ < UINT_MAX ? static_cast<unsigned>(count_) : UINT_MAX;
  }
  friend constexpr bool operator==(milliseconds, milliseconds) = default;

 private:
  // `count` times of num / den seconds.
  template <class Count>
  static constexpr std::int64_t scaled(Count count, std::int64_t num, std::int64_t den) noexcept {
    const auto ms = static_cast<long double>(count) * static_cast<long double>(num) * 1000 /
                    static_cast<long double>(den);
    if (ms >= static_cast<long double>(INT64_MAX)) return INT64_MAX;
    if (ms <= static_cast<long double>(INT64_MIN)) return INT64_MIN;
    const auto whole = static_cast<std::int64_t>(ms);
    return static_cast<long double>(whole) < ms ? whole + 1 : whole;
  }

  std::int64_t count_ = 0;
};

TARN_NAMESPACE_END
}  // namespace tarn
