// SPDX-License-Identifier: MIT
// range_map: values by ranges of addresses. Where two ranges overlap, the one that was added later counts. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace tarn::profiler {

template <class Value>
class range_map {
 public:
  void add(std::uint64_t start, std::uint64_t end, Value value) {
    if (start >= end) return;
    // A range that the new one covers in part keeps what remains on either side.
    auto next = ranges_.lower_bound(start);
    if (next != ranges_.begin()) {
      const auto before = std::prev(next);
      if (before->second.end > end) ranges_.insert({end, before->second});
      before->second.end = std::min(before->second.end, start);
    }
    while (next != ranges_.end() && next->first < end) {
      if (next->second.end > end) ranges_.insert({end, next->second});
      next = ranges_.erase(next);
    }
    ranges_.insert_or_assign(start, range{end, std::move(value)});
  }

  // Null: no range holds the address.
  const Value* at(std::uint64_t address) const {
    const auto above = ranges_.upper_bound(address);
    if (above == ranges_.begin()) return nullptr;
    const range& here = std::prev(above)->second;
    return address < here.end ? &here.value : nullptr;
  }

  // The first range above the address: its start and its value; null: there is none.
  std::pair<std::uint64_t, const Value*> above(std::uint64_t address) const {
    const auto next = ranges_.upper_bound(address);
    if (next == ranges_.end()) return {0, nullptr};
    return {next->first, &next->second.value};
  }

 private:
  struct range {
    std::uint64_t end;
    Value value;
  };
  std::map<std::uint64_t, range> ranges_;  // by start; they do not overlap
};

}  // namespace tarn::profiler
