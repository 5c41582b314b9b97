// SPDX-License-Identifier: MIT
// accepted_values: what the value of an option may be. The check writes its message itself, as "must be …, not '…'", so
// that none of CLI11's own messages is shown; advice may follow in a second line. The words are those that shells
// complete. Pure functions; any thread.
#pragma once

#include <CLI/CLI.hpp>

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tarn::cli {

// Sizes as people write them: a whole number of bytes, or of KiB, MiB or GiB with K, KiB, M, MiB, G, GiB in either case. Throws cli_error, which
// says what is accepted.
std::uint64_t parse_byte_size(std::string_view word);

struct accepted_values {
  std::optional<CLI::Validator> check{};  // none: any text
  std::vector<std::string> words{};       // empty: the value is no word of a list
};

// The bounds belong to the range.
accepted_values whole_number(std::uint64_t least,
                             std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
accepted_values number(double least, double most);
accepted_values number_above_zero();
// "512K", "1G" …: as parse_byte_size reads it.
accepted_values byte_size(std::uint64_t least, std::uint64_t most);
accepted_values one_of(std::vector<std::string> words);

// What any option of this type accepts.
template <class T>
accepted_values any_value() {
  if constexpr (std::unsigned_integral<T>) return whole_number(0, std::numeric_limits<T>::max());
  if constexpr (std::signed_integral<T>) {
    return whole_number(0, static_cast<std::uint64_t>(std::numeric_limits<T>::max()));
  }
  if constexpr (std::floating_point<T>) return number(0, std::numeric_limits<T>::max());
  return {};
}

}  // namespace tarn::cli
