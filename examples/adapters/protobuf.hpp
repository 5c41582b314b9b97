// SPDX-License-Identifier: MIT
// protobuf_arena: a google::protobuf::Arena whose blocks come from a store of its own, and whose first block is as large as
// earlier arenas needed.
//
//     tarn::protobuf_arena arena;                       // for one request
//     auto* const request = google::protobuf::Arena::CreateMessage<my::Request>(arena.get());
//
// protobuf's arena begins with 256 bytes and doubles its blocks up to 32 KiB, each from operator new. A server that handles
// one request after the other asks for the same blocks each time. Here blocks come from pools by size and go back to them;
// and an arena notes when it ends how much it has allocated, so that the first block of the next arena is as large as six
// of ten earlier arenas needed (basic_protobuf_arena<Tag>: a statistic of its own, for requests of another kind). What was noted
// is halved after every 1,000 arenas, so that the size follows the load.
//
// Use it where arenas are made and ended all the time. Do not use it for one arena that lives as long as the program.
// protobuf_blocks::options() is for code that makes its arenas itself.
//
// Requires: protobuf 3.12 or later. Thread safety: an arena as protobuf's: allocations by any thread, construction, reset()
// and destruction by one. Any thread may free blocks that another allocated.
// Failure: as protobuf's arenas, which do not expect null: std::bad_alloc (protobuf's functions let it pass, as that of
// operator new). Lifetime: the store is never destroyed.
// Cost: a block as an object of an object_pool, about 20 instructions; 70 loads when an arena ends.
// Memory: idle blocks as in block_store.hpp: bounded by thread and size, given back when idle. An arena's first
// block has at most 1 MiB.
#pragma once

#include <google/protobuf/arena.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "block_store.hpp"

namespace tarn {

// How many bytes arenas have used. Thread safety: any thread; the figures of concurrent calls are approximate.
class arena_size_history {
 public:
  static constexpr std::size_t least = 256;
  static constexpr std::size_t largest = std::size_t{1} << 20;

  constexpr arena_size_history() noexcept = default;

  void note(std::size_t bytes) noexcept {
    counts_[place_of(bytes)].fetch_add(1, std::memory_order_relaxed);
    if (noted_.fetch_add(1, std::memory_order_relaxed) + 1 != most_noted) return;
    noted_.store(most_noted / 2, std::memory_order_relaxed);
    for (std::atomic<std::uint32_t>& count : counts_) {
      count.store(count.load(std::memory_order_relaxed) / 2, std::memory_order_relaxed);
    }
  }
  // The bytes that six of ten arenas did not exceed; `least` while nothing is noted.
  [[nodiscard]] std::size_t usual_bytes() const noexcept {
    std::uint64_t all = 0;
    for (const std::atomic<std::uint32_t>& count : counts_) all += count.load(std::memory_order_relaxed);
    std::uint64_t below = 0;
    for (std::size_t place = 0; place < places; ++place) {
      below += counts_[place].load(std::memory_order_relaxed);
      if (below != 0 && below * 10 >= all * 6) return bytes_of(place);
    }
    return least;
  }

 private:
  static constexpr std::size_t steps_per_doubling = 4;
  static constexpr std::size_t places =
      static_cast<std::size_t>(std::bit_width(largest / least) - 1) * steps_per_doubling + 1;
  static constexpr std::uint32_t most_noted = 1000;

  static constexpr std::size_t bytes_of(std::size_t place) {
    const std::size_t base = least << (place / steps_per_doubling);
    return base + base / steps_per_doubling * (place % steps_per_doubling);
  }
  static constexpr std::size_t place_of(std::size_t bytes) {
    if (bytes >= largest) return places - 1;
    if (bytes <= least) return 0;
    const auto doubling = static_cast<std::size_t>(std::bit_width((bytes - 1) / least) - 1);
    const std::size_t base = least << doubling;
    const std::size_t step = base / steps_per_doubling;
    return doubling * steps_per_doubling + (bytes - base + step - 1) / step;
  }

  std::atomic<std::uint32_t> counts_[places] = {};
  std::atomic<std::uint32_t> noted_{0};
};

// The process-wide store, as the plain functions that ArenaOptions takes.
struct protobuf_blocks {
  static void* allocate(std::size_t bytes) {
    void* const block = store().allocate(bytes);
    if (TARN_DETAIL_UNLIKELY(block == nullptr)) detail::throw_bad_alloc();
    return block;
  }
  static void deallocate(void* block, std::size_t /*bytes*/) { store().deallocate(block); }
  static std::size_t trim() noexcept { return store().trim(); }
  [[nodiscard]] static detail::block_store::figures stats() noexcept { return store().stats(); }

  // For arenas whose first block has about `first_bytes` bytes.
  [[nodiscard]] static google::protobuf::ArenaOptions options(std::size_t first_bytes = 0) {
    google::protobuf::ArenaOptions options;
    options.block_alloc = &allocate;
    options.block_dealloc = &deallocate;
    if (first_bytes != 0) options.start_block_size = first_bytes;
    if (options.max_block_size < options.start_block_size) options.max_block_size = options.start_block_size;
    return options;
  }

 private:
  // Never destroyed: arenas of static storage duration may end after every other object.
  static detail::block_store& store() {
    alignas(detail::block_store) static std::byte memory[sizeof(detail::block_store)];
    static auto* const made = ::new (static_cast<void*>(memory)) detail::block_store("protobuf blocks");
    return *made;
  }
};

struct protobuf_default_tag {};

template <class Tag = protobuf_default_tag>
class basic_protobuf_arena {
 public:
  basic_protobuf_arena() : arena_(protobuf_blocks::options(history_.usual_bytes())) {}
  basic_protobuf_arena(const basic_protobuf_arena&) = delete;
  basic_protobuf_arena& operator=(const basic_protobuf_arena&) = delete;
  ~basic_protobuf_arena() { note(); }

  [[nodiscard]] google::protobuf::Arena* get() noexcept { return &arena_; }
  [[nodiscard]] google::protobuf::Arena* operator->() noexcept { return &arena_; }
  // As Arena::Reset(): ends all objects. Requires: none of them is used afterwards.
  void reset() {
    note();
    arena_.Reset();
  }

  // The first block of the next arena of this kind.
  [[nodiscard]] static std::size_t first_block_bytes() noexcept { return history_.usual_bytes(); }

 private:
  // Room for the arena's own header in its first block.
  static constexpr std::size_t header_bytes = 192;

  void note() noexcept { history_.note(static_cast<std::size_t>(arena_.SpaceUsed()) + header_bytes); }

  static inline constinit arena_size_history history_{};
  google::protobuf::Arena arena_;
};
using protobuf_arena = basic_protobuf_arena<>;

}  // namespace tarn
