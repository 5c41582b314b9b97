// SPDX-License-Identifier: MIT
// path_tree: the call paths of a report's sites as a tree of source frames, with the outermost frame at the root;
// inlined functions are frames of their own. Paths that differ only in addresses become one. Not thread-safe; holds
// references to the profile and the table it was made with. Node 0 is the root, which has no frame; a node's parent has
// a smaller number than the node.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profiler/model/profile.hpp"
#include "profiler/report/string_table.hpp"

namespace tarn::profiler {

class path_tree {
 public:
  path_tree(const profile& p, string_table& strings);

  static constexpr std::uint32_t no_frame = UINT32_MAX;

  // The node of a call path (an index into profile::stacks), which is added with its callers if needed. 0 for the
  // empty path.
  std::uint32_t node_of(std::uint32_t stack);

  // The frame by which a path is named: label_of() (site_label.hpp), as everywhere. Code without a name is a frame for its whole
  // file, which is in no path.
  std::uint32_t place_of(std::uint32_t stack);
  // By frame of such a file: why it has no names, and what brings them.
  const std::map<std::uint32_t, std::string>& hints() const noexcept { return hints_; }

  // A node below the frame, named `text`, which stands for many paths.
  std::uint32_t node_below(std::string_view text, std::uint32_t frame_number);

  // Columns function, file, module (text numbers; of a script its file), line, inlined, and library: is_plumbing().
  nlohmann::json frames_json() const;
  nlohmann::json nodes_json() const;  // columns parent, frame

 private:
  // function, file, line, module, inlined, library: function, file and module are text numbers.
  using frame = std::array<std::uint32_t, 6>;

  // The frames of one address, outermost first.
  const std::vector<std::uint32_t>& frames_at(std::uint64_t address);
  std::uint32_t number_of(const frame& wanted);
  std::uint32_t child_of(std::uint32_t parent, std::uint32_t frame_number);

  const profile& profile_;
  string_table& strings_;
  bool has_scripts_ = false;
  std::vector<std::uint32_t> node_of_stack_;  // 0: not there yet
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> frames_of_address_;
  std::map<frame, std::uint32_t> frame_numbers_;
  std::vector<frame> frames_;
  std::map<std::uint32_t, std::string> hints_;
  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // parent << 32 | frame
  std::vector<std::array<std::uint32_t, 2>> nodes_;            // parent, frame
};

}  // namespace tarn::profiler
