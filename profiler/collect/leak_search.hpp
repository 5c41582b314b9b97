// SPDX-License-Identifier: MIT
// leak_search: which blocks of a program can still be reached, judged by its memory's content alone: any aligned
// word whose value is an address within a block counts as a pointer to it, as in LeakSanitizer and memcheck. So a
// block may count as reachable by chance, but no word at all leads to a block that counts as lost.
//
// Unreachable blocks that another unreachable block points to are `indirect`, the others are `lost`; of a cycle of
// unreachable blocks, the one with the lowest address is `lost`.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace tarn::profiler {

struct searched_block {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint32_t site = 0;
};

enum class reach : std::uint8_t { none, reachable, lost, indirect };

struct root_range {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  // The static data of malloc itself: its address in the last word of a block points at the free chunk that follows
  // the block.
  bool is_allocators = false;
};

class leak_search {
 public:
  // Returns the words at `address`, at most `words`; null if that memory cannot be read. `count` is set to the
  // number of words returned, or to be skipped. The words stay valid until the next call.
  using reader =
      std::function<const std::uint64_t*(std::uint64_t address, std::size_t words, std::size_t& count)>;

  // `blocks` are sorted by address and do not overlap.
  leak_search(std::vector<searched_block> blocks, reader read);

  void add_root(const root_range& range);
  void add_root_word(std::uint64_t word) { reach_word(word, false, reach::reachable); }
  // Follows pointers from every block reached so far, then classifies the unreachable blocks.
  void finish();

  const std::vector<searched_block>& blocks() const noexcept { return blocks_; }
  reach state(std::size_t block) const noexcept { return states_[block]; }
  double scanned_bytes() const noexcept { return scanned_bytes_; }

 private:
  static constexpr std::size_t no_block = SIZE_MAX;

  std::size_t block_at(std::uint64_t word) const;
  void reach_word(std::uint64_t word, bool from_allocator, reach as);
  void flood(reach as);
  template <class Visit>
  void scan(std::uint64_t start, std::uint64_t end, Visit visit);

  std::vector<searched_block> blocks_;
  std::vector<reach> states_;
  std::vector<std::size_t> frontier_;
  reader read_;
  std::uint64_t first_ = 0;  // range of all blocks' bytes: a quick test that most words fail
  std::uint64_t end_ = 0;
  double scanned_bytes_ = 0;
};

}  // namespace tarn::profiler
