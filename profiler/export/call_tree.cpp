// SPDX-License-Identifier: MIT
#include "profiler/export/call_tree.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "profiler/analyze/site_label.hpp"
#include "profiler/export/path_identity.hpp"

namespace tarn::profiler {

class call_tree_builder {
 public:
  call_tree run(const profile& p, const metric& what, bool inverted) {
    for (const metric_row& row : metric_rows(p)) {
      const double value = what.of(p, row.figures(p));
      if (value > 0) add(row.frames(p), value, inverted);
    }
    std::stable_sort(
        tree_.rows_.begin(), tree_.rows_.end(),
        [this](const call_tree::row& left, const call_tree::row& right) { return is_before(left, right); });
    return std::move(tree_);
  }

 private:
  void add(const std::vector<source_frame>& frames, double value, bool inverted) {
    const std::size_t begin = tree_.path_.size();
    // Allocators and containers further in say nothing about which code is responsible.
    for (std::size_t index = own_frame(frames); index < frames.size(); ++index)
      tree_.path_.push_back(number_of(frames[index]));
    if (!inverted) std::reverse(tree_.path_.begin() + static_cast<std::ptrdiff_t>(begin), tree_.path_.end());
    tree_.rows_.push_back({value, begin, tree_.path_.size()});
  }

  std::uint32_t number_of(const source_frame& frame) {
    const auto [at, is_new] = known_.try_emplace({frame.function, frame.file, frame.line},
                                                 static_cast<std::uint32_t>(tree_.frames_.size()));
    if (is_new) {
      tree_.frames_.push_back(frame);
      tree_.functions_.push_back(functions_.of(frame.function));
    }
    return at->second;
  }

  bool is_before(const call_tree::row& left, const call_tree::row& right) const {
    const std::size_t common = std::min(left.depth(), right.depth());
    for (std::size_t depth = 0; depth < common; ++depth) {
      const std::uint32_t a = tree_.function_at(left, depth), b = tree_.function_at(right, depth);
      if (a != b) return a < b;
    }
    return left.depth() < right.depth();
  }

  call_tree tree_;
  std::map<std::tuple<std::string, std::string, std::uint32_t>, std::uint32_t> known_;
  name_numbers functions_;
};

call_tree call_tree::of(const profile& p, const metric& what, bool inverted) {
  return call_tree_builder().run(p, what, inverted);
}

call_node call_tree::node_of(std::size_t first, std::size_t last, std::size_t depth) const {
  call_node node{0, 0, first, last, depth};
  for (std::size_t index = first; index < last; ++index) {
    node.value += rows_[index].value;
    if (rows_[index].depth() == depth) node.own += rows_[index].value;
  }
  return node;
}

std::vector<call_node> call_tree::children(const call_node& node) const {
  std::vector<call_node> found;
  for (std::size_t first = node.first; first < node.last;) {
    if (rows_[first].depth() == node.depth) {  // the row's path ends in this node
      ++first;
      continue;
    }
    const std::uint32_t function = function_at(rows_[first], node.depth);
    std::size_t last = first + 1;
    while (last < node.last && function_at(rows_[last], node.depth) == function) ++last;
    found.push_back(node_of(first, last, node.depth + 1));
    first = last;
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const call_node& a, const call_node& b) { return a.value > b.value; });
  return found;
}

const source_frame& call_tree::frame_of(const call_node& node) const {
  return frames_[path_[rows_[node.first].begin + node.depth - 1]];
}

}  // namespace tarn::profiler
