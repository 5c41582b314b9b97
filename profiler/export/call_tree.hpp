// SPDX-License-Identifier: MIT
// call_tree: the call paths of a profile merged into a tree by function, with the sums of one metric. Rows are
// sorted by the functions of their paths, so that the rows of a node, which share the beginning of their paths, are
// adjacent. Nodes are computed on demand; nodes that are never visited take neither time nor memory. Invariant: a
// node's value is its own value plus those of its children; the root's is sum_of(). Reading is safe from several
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "profiler/export/metrics.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct call_node {
  double value = 0;
  double own = 0;  // value of the sites that end here
  // Its rows [first, last) in sorted order, whose paths share the first `depth` functions.
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t depth = 0;  // 0: the root
};

class call_tree {
 public:
  // Paths from the program's start down to the sites' own frames (site_label.hpp); inverted: from these up to their
  // callers.
  static call_tree of(const profile& p, const metric& what, bool inverted);

  call_node root() const { return node_of(0, rows_.size(), 0); }
  std::vector<call_node> children(const call_node& node) const;  // by value, descending
  // The frame of one of the calls that the node combines. Requires a node other than the root.
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
