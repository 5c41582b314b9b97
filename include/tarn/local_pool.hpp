// SPDX-License-Identifier: MIT
// local_pool<T>: objects of one type for one thread at a time, without any synchronisation on a hit.
//
// for_each() and erase_if() visit its objects (std::hive's use, without an iterator that stays valid).
//
// Use it for the objects of one worker, one request, one container. Do not use it when single objects are created in
// one thread and destroyed in another: use object_pool.
//
// Thread safety: none; calls must not overlap. The pool and its objects may move to another thread as a whole.
// Failure: as object_pool. Cost of a hit: five instructions. sizeof(local_pool<T>): 136 bytes.
// Memory: from the first use on a span of at least chunk_objects<T> objects (whole pages of 8 KiB).
// (An array of free slots before spans, as object_pool; figures: docs/design/0006.)
#pragma once

#include "tarn/detail/abi.hpp"

#include "tarn/object_pool.hpp"

namespace tarn {
inline namespace TARN_ABI {

inline namespace TARN_POOL_MODE {

template <class T>
class local_pool : public detail::pool_front<local_pool<T>, T>,
                   public detail::pool_iteration<local_pool<T>, T> {
 public:
  // Takes no memory yet.
  local_pool() = default;
  local_pool(const local_pool&) = delete;
  local_pool& operator=(const local_pool&) = delete;
  // Frees the memory if no object is live. Otherwise the memory stays for ever, and the leak hook (tarn/stats.hpp) is
  // called with the type's name and the number of live objects.
  ~local_pool() {
    if (pool_ != nullptr) tarn_pool_destroy(pool_);
  }

  // Objects created or allocated and not given back yet.
  [[nodiscard]] std::size_t live() const noexcept { return stats().live; }
  [[nodiscard]] pool_stats stats() const noexcept { return detail::stats_of(pool_); }
  // Takes memory for `objects` more objects. Throws std::bad_alloc.
  void reserve(std::size_t objects) {
    if (!prepare() || !tarn_pool_reserve(pool_, objects)) detail::throw_bad_alloc();
  }
  // Gives empty spans to the page heap; returns the bytes.
  std::size_t trim() noexcept {
    tarn_pool_bin* bin = &bin_.front;
    return pool_ != nullptr ? tarn_pool_trim(pool_, &bin) : 0;
  }

 private:
  friend class detail::pool_front<local_pool<T>, T>;
  friend class detail::pool_iteration<local_pool<T>, T>;

  [[nodiscard]] tarn_pool* core_or_null() const noexcept { return pool_; }
  TARN_DETAIL_INLINE void* take() const noexcept {
    if constexpr (TARN_CHECKED_POOLS == 0) {
      if (void* const slot = detail::pop(&bin_.front)) {
        detail::unpoison(slot, sizeof(T));
        return slot;
      }
    }
    return take_slow();
  }
  TARN_DETAIL_INLINE void give(void* slot) const noexcept {
    if constexpr (TARN_CHECKED_POOLS == 0) {
      detail::poison(slot, sizeof(T));
      if (TARN_DETAIL_LIKELY(detail::push(&bin_.front, slot))) return;
    }
    give_slow(slot);
  }
  void check(const T* object) const noexcept {
    prepare();
    tarn_pool_check(pool_, object, "destroy");
  }

  // The slow paths read pool_ themselves: passed as an argument it would be loaded on every hit.
  TARN_DETAIL_COLD void* take_slow() const noexcept {
    if (!prepare()) return nullptr;
    tarn_pool_bin* bin = &bin_.front;
    return detail::take_slot<T>(pool_, &bin);
  }
  TARN_DETAIL_COLD void give_slow(void* slot) const noexcept {
    // Without a pool the object cannot be the pool's own; a checked pool is made so that it reports the error.
    if constexpr (TARN_CHECKED_POOLS != 0) prepare();
    tarn_pool_bin* bin = &bin_.front;
    detail::give_slot<T>(pool_, &bin, slot);
  }
  bool prepare() const noexcept {
    if (pool_ != nullptr) return true;
    tarn_pool_request request = detail::request_for<T>({});
    request.single_thread = true;
    request.own_bin = &bin_;
    request.owner = this;
    pool_ = tarn_pool_create(&request);
    return pool_ != nullptr;
  }

  // Mutable: pool_front's members are const, as they are for the stateless handle shared_pool.
  mutable tarn_pool_own_bin bin_{detail::no_bin.bin, {}};
  mutable tarn_pool* pool_ = nullptr;
};

// Of a type that cannot be held: refused, with the reason.
template <class T>
  requires(!detail::is_held<T>)
class local_pool<T> : detail::refused_type<T> {};

}  // namespace TARN_POOL_MODE

}  // namespace TARN_ABI
}  // namespace tarn
