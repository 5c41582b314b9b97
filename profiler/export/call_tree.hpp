// SPDX-License-Identifier: MIT
// call_tree: the call paths of a profile put together by function, with the sums of one metric.
// Invariant: a node's value is its own and its children's; the root's is sum_of().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/export/metrics.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct call_node {
  source_frame frame;  // of one of the calls that are together here
  double value = 0;
  double own = 0;                     // of sites that end here
  std::vector<std::size_t> children;  // by value, descending
};

struct call_tree {
  std::vector<call_node> nodes;  // [0] is the root, without a frame

  // From the program's start down to the sites' own frames (site_label.hpp); or, inverted, from these to their callers.
  static call_tree of(const profile& p, const metric& what, bool inverted);
};

}  // namespace tarn::profiler
