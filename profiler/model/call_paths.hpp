// SPDX-License-Identifier: MIT
// call_paths: call paths as a tree: each node is a return address below its caller's node; node 0 is the empty path.
// Invariant (validate()): each pair of a parent and an address has one node; parents come before their children. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "os/invariant.hpp"
#include "profiler/model/index_set.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

class call_paths {
 public:
  // Requires a parent that is there.
  std::uint32_t find_or_add(std::uint32_t parent, std::uint64_t address) {
    const stack_node node = {parent, address};
    const auto next = static_cast<std::uint32_t>(nodes_.size());
    const std::uint32_t found = index_.find_or_add(hash_of(node), next, same{nodes_, node},
                                                   [this](std::uint32_t at) { return hash_of(nodes_[at]); });
    if (found == next) {
      nodes_.push_back(node);
      if (os::is_check_due(nodes_.size())) validate();
    }
    return found;
  }
  // `otherwise`: returned if there is no such node.
  std::uint32_t find(std::uint32_t parent, std::uint64_t address, std::uint32_t otherwise) const {
    const stack_node node = {parent, address};
    return index_.find_added(hash_of(node), same{nodes_, node}).value_or(otherwise);
  }
  const std::vector<stack_node>& nodes() const noexcept { return nodes_; }
  // Adds the paths of `others`, whose addresses are `address(index)` here. Returns the node of each of their nodes.
  template <class Address>
  std::vector<std::uint32_t> add(const std::vector<stack_node>& others, Address address) {
    std::vector<std::uint32_t> own(std::max<std::size_t>(1, others.size()));
    for (std::size_t index = 1; index < others.size(); ++index)
      own[index] = find_or_add(own[others[index].parent], address(index));
    return own;
  }
  // Moves the nodes out; only the empty path is left.
  std::vector<stack_node> take() {
    index_.clear();
    return std::exchange(nodes_, std::vector<stack_node>(1));
  }

  void validate() const {
    for (std::uint32_t at = 1; at < nodes_.size(); ++at) {
      TARN_INVARIANT("call_paths", this, nodes_[at].parent < at);
      TARN_INVARIANT("call_paths", this, find(nodes_[at].parent, nodes_[at].address, 0) == at);
    }
  }

 private:
  friend class call_paths_test_access;

  struct same {
    const std::vector<stack_node>& nodes;
    stack_node one;
    bool operator()(std::uint32_t at) const {
      return nodes[at].parent == one.parent && nodes[at].address == one.address;
    }
  };
  static std::size_t hash_of(const stack_node& node) {
    return node.address * 0xff51afd7ed558ccdU + node.parent;
  }

  std::vector<stack_node> nodes_{1};
  index_set index_;
};

}  // namespace tarn::profiler
