// SPDX-License-Identifier: MIT
#include <array>
#include <cstdio>
#include <string>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

namespace {

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 24> text;
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value));
  return text.data();
}

}  // namespace

std::string unknown_function(const profile& p, std::uint64_t address) {
  // The last that was loaded there counts.
  for (auto each = p.modules.rbegin(); each != p.modules.rend(); ++each) {
    if (address - 1 < each->start || address - 1 >= each->end) continue;
    const std::string name = each->path.substr(each->path.rfind('/') + 1);
    return "?? (" + name + "+" + hexadecimal(address - each->start + each->file_offset) + ")";
  }
  return "?? (" + hexadecimal(address) + ")";
}

std::vector<source_frame> frames_of(const profile& p, std::uint32_t stack, std::size_t most) {
  std::vector<source_frame> frames;
  // A parent's index is less than its child's: this ends.
  for (; most != 0 && stack != 0 && stack < p.stacks.size(); --most) {
    const stack_node& node = p.stacks[stack];
    const auto found = p.symbols.find(node.address);
    if (found != p.symbols.end() && !found->second.empty()) {
      frames.insert(frames.end(), found->second.begin(), found->second.end());
    } else {
      frames.push_back({unknown_function(p, node.address), {}, 0, false});
    }
    if (node.parent >= stack) break;
    stack = node.parent;
  }
  return frames;
}

}  // namespace tarn::profiler
