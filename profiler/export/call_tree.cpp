// SPDX-License-Identifier: MIT
#include "profiler/export/call_tree.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "profiler/analyze/site_label.hpp"

namespace tarn::profiler {

call_tree call_tree::of(const profile& p, const metric& what, bool inverted) {
  call_tree tree;
  tree.nodes.emplace_back();
  std::map<std::pair<std::size_t, std::string>, std::size_t> known;  // child of a node by function
  for (const metric_row& row : metric_rows(p)) {
    const double value = what.of(p, row.figures());
    if (value <= 0) continue;
    std::vector<source_frame> frames = row.frames(p);
    // Allocators and containers within say nothing about who pays.
    frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(own_frame(frames)));
    if (!inverted) std::reverse(frames.begin(), frames.end());
    std::size_t at = 0;
    tree.nodes[0].value += value;
    for (source_frame& frame : frames) {
      const auto [place, is_new] = known.try_emplace({at, frame.function}, tree.nodes.size());
      if (is_new) {
        tree.nodes[at].children.push_back(tree.nodes.size());
        tree.nodes.push_back({std::move(frame), 0, 0, {}});
      }
      at = place->second;
      tree.nodes[at].value += value;
    }
    tree.nodes[at].own += value;
  }
  for (call_node& node : tree.nodes) {
    std::stable_sort(node.children.begin(), node.children.end(), [&tree](std::size_t a, std::size_t b) {
      return tree.nodes[a].value > tree.nodes[b].value;
    });
  }
  return tree;
}

}  // namespace tarn::profiler
