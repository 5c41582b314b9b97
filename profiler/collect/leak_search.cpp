// SPDX-License-Identifier: MIT
#include "profiler/collect/leak_search.hpp"

#include <algorithm>
#include <utility>

namespace tarn::profiler {

namespace {

constexpr std::uint64_t word_bytes = sizeof(std::uint64_t);

}  // namespace

leak_search::leak_search(std::vector<searched_block> blocks, reader read)
    : blocks_(std::move(blocks)), states_(blocks_.size(), reach::none), read_(std::move(read)) {
  if (blocks_.empty()) return;
  first_ = blocks_.front().address;
  end_ = blocks_.back().address + std::max<std::uint64_t>(1, blocks_.back().size);
}

// A block of 0 bytes still occupies its own address.
std::size_t leak_search::block_at(std::uint64_t word) const {
  if (word < first_ || word >= end_) return no_block;
  auto above = std::upper_bound(
      blocks_.begin(), blocks_.end(), word,
      [](std::uint64_t address, const searched_block& block) { return address < block.address; });
  --above;
  if (word - above->address >= std::max<std::uint64_t>(1, above->size)) return no_block;
  return static_cast<std::size_t>(above - blocks_.begin());
}

void leak_search::reach_word(std::uint64_t word, bool from_allocator, reach as) {
  const std::size_t index = block_at(word);
  if (index == no_block || states_[index] != reach::none) return;
  const searched_block& block = blocks_[index];
  if (from_allocator && word != block.address && word + word_bytes >= block.address + block.size) return;
  states_[index] = as;
  frontier_.push_back(index);
}

template <class Visit>
void leak_search::scan(std::uint64_t start, std::uint64_t end, Visit visit) {
  std::uint64_t at = (start + word_bytes - 1) & ~(word_bytes - 1);
  while (at + word_bytes <= end) {
    std::size_t count = 0;
    const std::uint64_t* words = read_(at, (end - at) / word_bytes, count);
    if (count == 0) return;
    if (words != nullptr) {
      scanned_bytes_ += static_cast<double>(count * word_bytes);
      for (std::size_t index = 0; index < count; ++index) visit(words[index]);
    }
    at += count * word_bytes;
  }
}

void leak_search::add_root(const root_range& range) {
  scan(range.start, range.end,
       [&](std::uint64_t word) { reach_word(word, range.is_allocators, reach::reachable); });
}

void leak_search::flood(reach as) {
  while (!frontier_.empty()) {
    const searched_block block = blocks_[frontier_.back()];
    frontier_.pop_back();
    scan(block.address, block.address + block.size, [&](std::uint64_t word) { reach_word(word, false, as); });
  }
}

void leak_search::finish() {
  flood(reach::reachable);
  std::vector<bool> has_holder(blocks_.size());
  for (std::size_t index = 0; index < blocks_.size(); ++index) {
    if (states_[index] != reach::none) continue;
    scan(blocks_[index].address, blocks_[index].address + blocks_[index].size, [&](std::uint64_t word) {
      const std::size_t held = block_at(word);
      if (held != no_block && held != index) has_holder[held] = true;
    });
  }
  for (const bool rings : {false, true}) {
    for (std::size_t index = 0; index < blocks_.size(); ++index) {
      if (states_[index] != reach::none || (!rings && has_holder[index])) continue;
      states_[index] = reach::lost;
      frontier_.push_back(index);
      flood(reach::indirect);
    }
  }
}

}  // namespace tarn::profiler
