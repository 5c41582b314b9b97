// SPDX-License-Identifier: MIT
// path_identity: identifies equal call paths in several profiles, by the names of their functions, inlined ones
// included. Lines and addresses do not count. Different names have different numbers; the identity of a path is a
// 128-bit hash of its names' numbers. Among a million paths the probability of a collision is below 1e-26. Not
// thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// All zeroes: the empty path.
struct path_identity {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  auto operator<=>(const path_identity&) const = default;
};

// Gives each text a number. Identities are comparable only if they were made with the same object.
class name_numbers {
 public:
  std::uint32_t of(std::string_view name);

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

// The path `caller`, extended by one name.
path_identity extend(const path_identity& caller, std::uint32_t name);

// The identity of each call path, by its index in p.stacks.
std::vector<path_identity> identities_of(const profile& p, name_numbers& names);

}  // namespace tarn::profiler
