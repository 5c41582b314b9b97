// SPDX-License-Identifier: MIT
// range_map: values by ranges of addresses. Where two ranges overlap, the one that was added later counts. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
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
    remove(start, end, [](const Value&, std::uint64_t, std::uint64_t) {});
    ranges_.insert_or_assign(start, range{end, std::move(value)});
  }

  // Ranges that reach beyond [start, end) keep what lies outside of it. Calls gone(value, from, to) for each part that goes.
  template <class Gone>
  void remove(std::uint64_t start, std::uint64_t end, Gone gone) {
    if (start >= end) return;
    auto at = ranges_.lower_bound(start);
    if (at != ranges_.begin() && std::prev(at)->second.end > start) --at;
    while (at != ranges_.end() && at->first < end) {
      const std::uint64_t first = at->first;
      const range old = std::move(at->second);
      at = ranges_.erase(at);
      if (first < start) ranges_.insert({first, {start, old.value}});
      if (old.end > end) ranges_.insert({end, {old.end, old.value}});
      gone(old.value, std::max(first, start), std::min(old.end, end));
    }
  }

  std::size_t size() const noexcept { return ranges_.size(); }
  // Calls visit(start, end, value) for each range.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& [start, one] : ranges_) visit(start, one.end, one.value);
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
