// SPDX-License-Identifier: MIT
// call_tree: the call paths of a profile put together by function, with the sums of one metric. Paths are kept in the order
// of their functions, so that those with a common beginning, a node of the tree, lie next to each other; nodes are found
// when they are asked for, and those that nobody asks for take neither time nor memory.
// Invariant: a node's value is its own and its children's; the root's is sum_of().
// Reading is safe from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "profiler/export/metrics.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct call_node {
  double value = 0;
  double own = 0;  // of sites that end here
  // The rows below it in the tree's order, which are alike in so many functions.
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t depth = 0;  // 0: the root
};

class call_tree {
 public:
  // From the program's start down to the sites' own frames (site_label.hpp); or, inverted, from these to their callers.
  static call_tree of(const profile& p, const metric& what, bool inverted);

  call_node root() const { return node_of(0, rows_.size(), 0); }
  std::vector<call_node> children(const call_node& node) const;  // by value, descending
  // Of one of the calls that are together in it. Requires: it is not the root.
  const source_frame& frame_of(const call_node& node) const;

 private:
  struct row {
    double value = 0;
    std::size_t begin = 0;  // of path_
    std::size_t end = 0;
    std::size_t depth() const noexcept { return end - begin; }
  };
  friend class call_tree_builder;

  call_node node_of(std::size_t first, std::size_t last, std::size_t depth) const;
  std::uint32_t function_at(const row& one, std::size_t depth) const {
    return functions_[path_[one.begin + depth]];
  }

  std::vector<row> rows_;
  std::vector<std::uint32_t> path_;       // of all rows, one after the other: rows of frames_
  std::vector<source_frame> frames_;      // each once
  std::vector<std::uint32_t> functions_;  // of each frame, the number of its function
};

}  // namespace tarn::profiler
