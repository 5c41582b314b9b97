// SPDX-License-Identifier: MIT
#include "malloc/hardened_zero.hpp"

#include <atomic>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/units.hpp"
#include "os/memory.hpp"
#include "os/report.hpp"
#include "os/sandbox.hpp"

namespace tarn::hardened_zero {
namespace {

constexpr std::size_t step = 16;
constexpr std::size_t range_bytes = most_blocks * step;
// The blocks that one request looks at.
constexpr std::size_t most_looks = 256;
constexpr std::uintptr_t refused = 1;

// 0: not yet reserved.
std::atomic<std::uintptr_t> range{0};
std::atomic<std::uint32_t> next{0};
// Relaxed: a bit alone says whether its block is live; no memory belongs to a block.
std::atomic<std::uint64_t> live[most_blocks / 64] = {};

// By a block's distance from the start of the range.
std::uint64_t bit_of(std::size_t at) { return std::uint64_t{1} << (at / step % 64); }
std::atomic<std::uint64_t>& word_of(std::size_t at) { return live[at / step / 64]; }

constexpr std::size_t outside = ~std::size_t{0};
std::size_t offset_of(const void* address) {
  const std::uintptr_t start = range.load(std::memory_order_relaxed);
  const std::size_t at = address_of(address) - start;
  return start > refused && at < range_bytes ? at : outside;
}

// The start of the range; `refused`: there is none. Of two threads that reserve it at once, one releases its own again.
std::uintptr_t ensure_range() {
  std::uintptr_t start = range.load(std::memory_order_relaxed);
  if (TARN_LIKELY(start != 0)) return start;
  if (os::has_entered_sandbox()) return refused;
  void* const reserved = os::reserve_inaccessible(range_bytes, page_size);
  const std::uintptr_t mine = reserved != nullptr ? address_of(reserved) : refused;
  if (range.compare_exchange_strong(start, mine, std::memory_order_relaxed)) return mine;
  if (reserved != nullptr) os::release(reserved, range_bytes);
  return start;
}

}  // namespace

void* allocate() {
  const std::uintptr_t start = ensure_range();
  if (start == refused) return nullptr;
  for (std::size_t looks = 0; looks < most_looks; ++looks) {
    const std::size_t at = next.fetch_add(1, std::memory_order_relaxed) % most_blocks * step;
    if ((word_of(at).fetch_or(bit_of(at), std::memory_order_relaxed) & bit_of(at)) == 0)
      return reinterpret_cast<void*>(start + at);
  }
  return nullptr;
}

bool contains(const void* address) { return offset_of(address) != outside; }

bool is_live(const void* address) {
  const std::size_t at = offset_of(address);
  return at % step == 0 && (word_of(at).load(std::memory_order_relaxed) & bit_of(at)) != 0;
}

void deallocate(const void* block) {
  const std::size_t at = offset_of(block);
  if (at % step != 0) os::fatal("invalid free of a pointer into a block", block);
  if ((word_of(at).fetch_and(~bit_of(at), std::memory_order_relaxed) & bit_of(at)) == 0)
    os::fatal("double free", block);
}

}  // namespace tarn::hardened_zero
