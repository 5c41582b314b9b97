// SPDX-License-Identifier: MIT
// upstream_blocks: the blocks that a memory resource has allocated from its upstream resource, in a list, so that it
// can free all of them at once.
//
//     block:   | bytes asked for | padding | link |      links form a ring with ring_, which belongs to no block
//
// Thread safety: with std::mutex, allocate() and deallocate() may be called by any thread if the upstream resource
// allows it; with no_mutex calls must not overlap. The upstream resource is never called under the lock.
// Invariant: l->next->previous == l for each link l of the ring, which has one link per block, and ring_.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <new>

#include "tarn/detail/config.hpp"

namespace tarn {
TARN_NAMESPACE_BEGIN
namespace detail {

// For resources that one thread at a time uses.
struct no_mutex {
  void lock() noexcept {}
  void unlock() noexcept {}
};

template <class Mutex>
class upstream_blocks {
 public:
  explicit upstream_blocks(std::pmr::memory_resource* upstream) noexcept : upstream_(upstream) {}
  upstream_blocks(const upstream_blocks&) = delete;
  upstream_blocks& operator=(const upstream_blocks&) = delete;
  // Frees all blocks. Requires: no other thread calls a member.
  ~upstream_blocks() { release(); }

  [[nodiscard]] std::pmr::memory_resource* upstream() const noexcept { return upstream_; }

  // Throws what the upstream resource throws.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment) {
    if (bytes > most_bytes) throw_bad_alloc();
    if (alignment < alignof(link)) alignment = alignof(link);
    void* const block = upstream_->allocate(link_offset(bytes) + sizeof(link), alignment);
    auto* const added = ::new (static_cast<std::byte*>(block) + link_offset(bytes)) link;
    added->block = block;
    added->alignment = alignment;
    const std::scoped_lock lock(mutex_);
    added->previous = &ring_;
    added->next = ring_.next;
    ring_.next->previous = added;
    ring_.next = added;
    return block;
  }

  // Requires: from allocate(bytes, …), and neither given back nor released since.
  void deallocate(void* block, std::size_t bytes) {
    link* const gone = reinterpret_cast<link*>(static_cast<std::byte*>(block) + link_offset(bytes));
    {
      const std::scoped_lock lock(mutex_);
      gone->previous->next = gone->next;
      gone->next->previous = gone->previous;
    }
    give_back(gone);
  }

  // Frees all blocks. Requires: none of them is used afterwards.
  void release() {
    link* first = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      first = ring_.next;
      ring_.previous->next = nullptr;
      ring_.next = ring_.previous = &ring_;
    }
    // The `next` of the last block's link was set to null above, so the chain ends there. Without blocks `first` is
    // ring_.
    while (first != nullptr && first != &ring_) {
      link* const next = first->next;
      give_back(first);
      first = next;
    }
  }

 private:
  struct link {
    link* previous;
    link* next;
    void* block;
    std::size_t alignment;
  };
  static constexpr std::size_t most_bytes = SIZE_MAX / 2;

  static constexpr std::size_t link_offset(std::size_t bytes) {
    return (bytes + alignof(link) - 1) & ~(alignof(link) - 1);
  }
  void give_back(link* gone) {
    const auto offset =
        static_cast<std::size_t>(reinterpret_cast<std::byte*>(gone) - static_cast<std::byte*>(gone->block));
    upstream_->deallocate(gone->block, offset + sizeof(link), gone->alignment);
  }

  std::pmr::memory_resource* upstream_;
  [[no_unique_address]] Mutex mutex_;
  link ring_{&ring_, &ring_, nullptr, 0};
};

}  // namespace detail
TARN_NAMESPACE_END
}  // namespace tarn
