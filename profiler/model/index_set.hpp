// SPDX-License-Identifier: MIT
// index_set: finds the items of a list by their content. It holds only their indexes, 8 to 16 bytes for each. The
// list belongs to the caller, which gives an item's hash and whether an item is the one sought. Not thread-safe.
//
// Invariant: at most half of the buckets are taken, count_ of them, so that a search ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "os/invariant.hpp"

namespace tarn::profiler {

class index_set {
 public:
  // Returns the index for which is_it(index) is true; or adds `next` and returns it. `hash`: of the item sought;
  // hash_of(index): of an item that was added before. Requires: next < 2^32 - 1.
  template <class IsIt, class HashOf>
  std::uint32_t find_or_add(std::size_t hash, std::uint32_t next, IsIt is_it, HashOf hash_of) {
    if (2 * (count_ + 1) > buckets_.size()) grow(hash_of);
    std::uint32_t& bucket = buckets_[find(hash, is_it)];
    if (bucket == 0) {
      bucket = next + 1;
      ++count_;
      if (os::is_check_due(buckets_.size())) validate();
    }
    return bucket - 1;
  }

  // Whether is_it(index) is true for an index that was added with this hash.
  template <class IsIt>
  std::optional<std::uint32_t> find_added(std::size_t hash, IsIt is_it) const {
    const std::uint32_t bucket = buckets_.empty() ? 0 : buckets_[find(hash, is_it)];
    return bucket == 0 ? std::nullopt : std::optional(bucket - 1);
  }

  void validate() const {
    std::size_t taken = 0;
    for (const std::uint32_t bucket : buckets_) taken += bucket != 0 ? 1 : 0;
    TARN_INVARIANT("index_set", this, count_ == taken);
    TARN_INVARIANT("index_set", this, 2 * count_ <= buckets_.size());
  }

  void clear() { *this = {}; }

 private:
  friend class index_set_test_access;

  // The bucket of the item sought, or the free one that it would have.
  template <class IsIt>
  std::size_t find(std::size_t hash, IsIt is_it) const {
    const std::size_t mask = buckets_.size() - 1;
    std::size_t at = (hash * 0x9e3779b97f4a7c15U >> 20) & mask;
    while (buckets_[at] != 0 && !is_it(buckets_[at] - 1)) at = (at + 1) & mask;
    return at;
  }

  template <class HashOf>
  void grow(HashOf hash_of) {
    constexpr std::size_t least = 64;
    std::vector<std::uint32_t> old(buckets_.empty() ? least : 2 * buckets_.size());
    old.swap(buckets_);
    for (const std::uint32_t each : old) {
      if (each != 0) buckets_[find(hash_of(each - 1), [](std::uint32_t) { return false; })] = each;
    }
  }

  std::vector<std::uint32_t> buckets_;  // 0: free; otherwise the index + 1
  std::size_t count_ = 0;
};

}  // namespace tarn::profiler
