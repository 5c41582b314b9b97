// SPDX-License-Identifier: MIT
#include "profiler/export/path_identity.hpp"

#include <algorithm>

namespace tarn::profiler {

namespace {

// The finalizer of MurmurHash3: a bijection that lets each bit of the value change each bit of the result.
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 33)) * 0xff51afd7ed558ccdU;
  value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53U;
  return value ^ (value >> 33);
}

}  // namespace

std::uint32_t name_numbers::of(std::string_view name) {
  return numbers_.try_emplace(std::string(name), static_cast<std::uint32_t>(numbers_.size())).first->second;
}

path_identity extend(const path_identity& caller, std::uint32_t name) {
  const std::uint64_t number = std::uint64_t{name} + 1;
  return {mix(caller.first + number * 0x9e3779b97f4a7c15U),
          mix((caller.second ^ number) * 0xd6e8feb86659fd93U)};
}

std::vector<path_identity> identities_of(const profile& p, name_numbers& names) {
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>>
      known;  // names at an address, outermost first
  std::vector<path_identity> identities(p.stacks.size());
  // A parent's index is less than its child's.
  for (std::size_t stack = 1; stack < p.stacks.size(); ++stack) {
    const auto [at, is_new] = known.try_emplace(p.stacks[stack].address);
    if (is_new) {
      for (const source_frame& frame : frames_of(p, static_cast<std::uint32_t>(stack), 1))
        at->second.push_back(names.of(frame.function));
      std::reverse(at->second.begin(), at->second.end());
    }
    path_identity identity = identities[p.stacks[stack].parent];
    for (const std::uint32_t name : at->second) identity = extend(identity, name);
    identities[stack] = identity;
  }
  return identities;
}

}  // namespace tarn::profiler
