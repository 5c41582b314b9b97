// SPDX-License-Identifier: MIT
// path_identity: identifies equal call paths in several profiles, by the names of their functions, inlined ones
// included. Lines and addresses do not count. Names are numbered exactly; a path is a 128-bit hash of its names'
// numbers, so it takes little memory. The probability that two of a million paths collide is below 1e-26. Not
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

struct path_identity {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  auto operator<=>(const path_identity&) const = default;
};

// Numbers texts, for as long as this object lives.
class name_numbers {
 public:
  std::uint32_t of(std::string_view name);

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

// The path `caller`, extended by one name.
path_identity extend(const path_identity& caller, std::uint32_t name);

// Of each call path, by its index in p.stacks.
std::vector<path_identity> identities_of(const profile& p, name_numbers& names);

}  // namespace tarn::profiler
