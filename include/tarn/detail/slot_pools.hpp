// SPDX-License-Identifier: MIT
// slot_resource: pools by slot size behind pool_resource and local_pool_resource (tarn/resources.hpp).
//
// Thread safety: with shared_slot_pool any thread may allocate and free; with local_slot_pool calls must not overlap.
#pragma once

#include "tarn/detail/abi.hpp"

#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <mutex>

#include "tarn/detail/config.hpp"
#include "tarn/detail/pool_front.hpp"
#include "tarn/detail/slot_sizes.hpp"
#include "tarn/detail/upstream_blocks.hpp"

namespace tarn {
TARN_NAMESPACE_BEGIN

namespace detail {

TARN_POOLS_BEGIN

// The untyped pool for slots of slot_sizes::size_of(index). Null when there is no memory.
inline tarn_pool* create_slot_pool(std::size_t index, bool single_thread) noexcept {
  constexpr char prefix[] = "tarn::pool_resource/";
  char name[sizeof(prefix) + 8];
  std::memcpy(name, prefix, sizeof(prefix) - 1);
  const char* const end =
      std::to_chars(name + sizeof(prefix) - 1, name + sizeof(name), slot_sizes::size_of(index)).ptr;
  tarn_pool_options request = TARN_POOL_OPTIONS;
  request.object_size = slot_sizes::size_of(index);
  request.alignment = slot_sizes::alignment_of(index);
  request.name = name;
  request.name_length = static_cast<std::size_t>(end - name);
  request.checked = TARN_CHECKED_POOLS;
  request.single_thread = single_thread ? 1 : 0;
  return tarn_pool_create(&request);
}

// A resource's pool for one slot size, created by its first use. Both kinds have
//   get():        the pool, null if it does not exist yet;
//   prepare(i):   the pool, created if needed; null when there is no memory;
//   release():    destroys the pool and frees all its memory;
//   bin():        the bin to pop from and push to, never null;
//   bin_place(b): where the library may store the address of the bin that it makes; `b` if there is no such place yet.

class shared_slot_pool {
 public:
  // acquire: partner of the release in prepare().
  [[nodiscard]] tarn_pool* get() const noexcept { return pool_.load(std::memory_order_acquire); }

  tarn_pool* prepare(std::size_t index) noexcept {
    return prepare_by([index] { return create_slot_pool(index, false); });
  }
  // The same with another function that creates the pool, or returns null.
  template <class Create>
  tarn_pool* prepare_by(Create create) noexcept {
    tarn_pool* pool = get();
    if (pool != nullptr) return pool;
    tarn_pool* const made = create();
    if (made == nullptr) return nullptr;
    // acq_rel: release is the partner of the acquire in get(); acquire on failure of the release by another thread
    // here. Whoever loads the pointer sees a complete pool.
    if (!pool_.compare_exchange_strong(pool, made, std::memory_order_acq_rel, std::memory_order_acquire)) {
      tarn_pool_destroy(made);
      return pool;
    }
    // release: partner of the acquire in place_or_null(). Numbers are reused: what the end of the number's previous
    // pool has written must be seen with the number.
    number_.store(tarn_pool_number(made), std::memory_order_release);
    return made;
  }

  // Requires: no other thread uses the resource meanwhile.
  void release() noexcept {
    number_.store(SIZE_MAX, std::memory_order_relaxed);
    if (tarn_pool* const pool = pool_.exchange(nullptr, std::memory_order_relaxed)) tarn_pool_release(pool);
  }

  [[nodiscard]] TARN_DETAIL_INLINE tarn_pool_bin* bin() const noexcept {
    tarn_pool_bin** const place = place_or_null();
    return TARN_DETAIL_LIKELY(place != nullptr) ? *place : &no_bin.bin;
  }
  [[nodiscard]] tarn_pool_bin** bin_place(tarn_pool_bin** none) const noexcept {
    tarn_pool_bin** const place = place_or_null();
    return place != nullptr ? place : none;
  }

 private:
  // Where the calling thread keeps the pointer to its bin; null if its table has no such entry yet.
  [[nodiscard]] TARN_DETAIL_INLINE tarn_pool_bin** place_or_null() const noexcept {
    // acquire: partner of the release in prepare().
    const std::size_t number = number_.load(std::memory_order_acquire);
    return number < tarn_pool_local_bins.count ? tarn_pool_local_bins.bins + number : nullptr;
  }

  std::atomic<tarn_pool*> pool_{nullptr};
  std::atomic<std::size_t> number_{SIZE_MAX};  // SIZE_MAX, beyond every table, until the pool is created
};

class local_slot_pool {
 public:
  [[nodiscard]] tarn_pool* get() const noexcept { return pool_; }
  tarn_pool* prepare(std::size_t index) noexcept {
    if (pool_ == nullptr) pool_ = create_slot_pool(index, true);
    return pool_;
  }
  void release() noexcept {
    bin_ = &no_bin.bin;
    if (pool_ != nullptr) tarn_pool_release(pool_);
    pool_ = nullptr;
  }
  [[nodiscard]] TARN_DETAIL_INLINE tarn_pool_bin* bin() const noexcept { return bin_; }
  [[nodiscard]] tarn_pool_bin** bin_place(tarn_pool_bin** /*none*/) noexcept { return &bin_; }

 private:
  tarn_pool_bin* bin_ = &no_bin.bin;
  tarn_pool* pool_ = nullptr;
};

// The common implementation of both resources.
template <class SlotPool, class Mutex>
class slot_resource : public std::pmr::memory_resource {
 public:
  explicit slot_resource(std::pmr::memory_resource* upstream) noexcept : large_(upstream) {}
  slot_resource(const slot_resource&) = delete;
  slot_resource& operator=(const slot_resource&) = delete;
  // Frees all memory. Requires: neither the resource nor its blocks are used any more.
  ~slot_resource() override {
    for (SlotPool& slots : pools_) slots.release();
  }

  // Frees all memory, that of live blocks too; the resource can be used again.
  // Requires: no other thread uses the resource meanwhile, and no block is used afterwards.
  void release() {
    for (SlotPool& slots : pools_) slots.release();
    large_.release();
  }
  // Gives the memory of unused slots to the page heap; returns the bytes.
  std::size_t trim() noexcept {
    std::size_t bytes = 0;
    for (SlotPool& slots : pools_) {
      tarn_pool_bin* none = &no_bin.bin;
      if (tarn_pool* const pool = slots.get()) bytes += tarn_pool_trim(pool, slots.bin_place(&none));
    }
    return bytes;
  }

  // Sums over all pools, without the blocks of the upstream resource. `peak` is the sum of peaks that the pools may
  // have reached at different times.
  [[nodiscard]] tarn_pool_stats stats() const noexcept {
    tarn_pool_stats sum{};
    for (const SlotPool& slots : pools_) add(sum, stats_of(slots.get()));
    return sum;
  }
  [[nodiscard]] std::pmr::memory_resource* upstream_resource() const noexcept { return large_.upstream(); }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (TARN_DETAIL_LIKELY(slot_sizes::is_quick(bytes, alignment))) {
      return take(slot_sizes::quick_find(bytes, alignment), bytes);
    }
    const std::size_t index = slot_sizes::find(bytes, alignment);
    return index != slot_sizes::count ? take(index, bytes) : large_.allocate(bytes, alignment);
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    if (TARN_DETAIL_LIKELY(slot_sizes::is_quick(bytes, alignment))) {
      return give(slot_sizes::quick_find(bytes, alignment), block);
    }
    const std::size_t index = slot_sizes::find(bytes, alignment);
    return index != slot_sizes::count ? give(index, block) : large_.deallocate(block, bytes);
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  // Unpoisons only the bytes asked for, so that a sanitizer reports accesses past them.
  TARN_DETAIL_INLINE void* take(std::size_t index, std::size_t bytes) {
    if constexpr (TARN_CHECKED_POOLS == 0) {
      if (void* const slot = pop(pools_[index].bin())) {
        unpoison(slot, bytes);
        return slot;
      }
    }
    return take_slow(index, bytes);
  }
  TARN_DETAIL_INLINE void give(std::size_t index, void* block) {
    if constexpr (TARN_CHECKED_POOLS == 0) {
      poison(block, slot_sizes::size_of(index));
      if (TARN_DETAIL_LIKELY(push(pools_[index].bin(), block))) return;
    }
    give_slow(index, block);
  }

  TARN_DETAIL_COLD void* take_slow(std::size_t index, std::size_t bytes) {
    tarn_pool* const pool = pools_[index].prepare(index);
    if (pool == nullptr) throw_bad_alloc();
    tarn_pool_bin* none = &no_bin.bin;
    tarn_pool_bin** const place = pools_[index].bin_place(&none);
    void* const slot = TARN_CHECKED_POOLS != 0 ? tarn_pool_checked_allocate(pool, place)
                                               : tarn_pool_allocate_slow(pool, place);
    if (slot == nullptr) throw_bad_alloc();
    unpoison(slot, bytes);
    return slot;
  }
  TARN_DETAIL_COLD void give_slow(std::size_t index, void* block) {
    tarn_pool* const pool = pools_[index].get();
    tarn_pool_bin* none = &no_bin.bin;
    tarn_pool_bin** const place = pools_[index].bin_place(&none);
    if constexpr (TARN_CHECKED_POOLS != 0) return tarn_pool_checked_deallocate(pool, place, block);
    tarn_pool_deallocate_slow(pool, place, block);
  }

  SlotPool pools_[slot_sizes::count];
  upstream_blocks<Mutex> large_;
};

TARN_POOLS_END

}  // namespace detail

TARN_NAMESPACE_END
}  // namespace tarn
