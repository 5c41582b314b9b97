// SPDX-License-Identifier: MIT
// live_objects: the live objects of a pool at one moment; for_each() and erase_if() of object_pool and local_pool.
//
// Thread safety: none. Nothing is allocated from the pool.
#pragma once

#include "tarn/detail/abi.hpp"

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>

#include "tarn/detail/config.hpp"
#include "tarn/detail/pool_bin.hpp"

namespace tarn {
TARN_NAMESPACE_BEGIN
namespace detail {

[[noreturn]] TARN_DETAIL_COLD inline void throw_no_snapshot([[maybe_unused]] int error) {
  if (error == ENOMEM) throw_bad_alloc();
#if defined(__cpp_exceptions)
  throw std::system_error(
      error, std::generic_category(),
      error == ENOTSUP
          ? "tarn: a forked child cannot list the objects of a pool whose free slots other threads "
            "held when the process was forked"
          : "tarn: cannot list the objects of a pool while another thread moves its free slots");
#else
  std::abort();
#endif
}

template <class T>
class live_objects {
 public:
  // Of the pool, which may be null: no objects. Throws std::bad_alloc, std::system_error.
  explicit live_objects(const tarn_pool* pool)
      : snapshot_(pool != nullptr ? tarn_pool_take_snapshot(pool) : nullptr) {
    if (pool != nullptr && snapshot_ == nullptr) throw_no_snapshot(errno);
  }
  live_objects(const live_objects&) = delete;
  live_objects& operator=(const live_objects&) = delete;
  ~live_objects() {
    if (snapshot_ != nullptr) tarn_pool_drop_snapshot(snapshot_);
  }

  template <class Visit>
  void for_each(Visit&& visit) const {
    if (snapshot_ == nullptr) return;
    for (std::size_t s = 0; s < snapshot_->span_count; ++s) {
      const tarn_pool_live_span& span = snapshot_->spans[s];
      for (std::size_t first = 0; first < span.slots; first += 64) {
        for (std::uint64_t bits = span.live[first / 64]; bits != 0; bits &= bits - 1) {
          const std::size_t index = first + static_cast<std::size_t>(std::countr_zero(bits));
          visit(*std::launder(reinterpret_cast<T*>(span.first + index * snapshot_->slot_bytes)));
        }
      }
    }
  }

 private:
  const tarn_pool_snapshot* snapshot_;
};

TARN_POOLS_BEGIN

// The members that object_pool and local_pool share (CRTP). Requires of Self: tarn_pool* core_or_null() const, and
// destroy(T*).
template <class Self, class T>
class pool_iteration {
 public:
  // Calls visit(T&) for each live object, in the order of their addresses.
  // Requires: until for_each() returns no other thread creates, destroys, allocates or deallocates in the pool, and what
  // each has done before happens before the call (join the threads, or stop them at a lock or barrier); every slot that was
  // allocated without an object (allocate()) is freed. Objects that make_shared() made are not visited: they lie in a pool
  // of their own.
  // visit may destroy the object that it gets, create objects (they are not visited), use other pools, and call
  // for_each(). It must not destroy another object, which for_each() may still be about to visit. What visit throws ends the
  // iteration and is passed on.
  // Throws: std::bad_alloc; std::system_error with ENOTSUP in a child that was forked while other threads held free
  // slots of the pool.
  // Cost: a list of one bit per slot in pages of its own; some ns per free slot in threads' magazines; nothing for free
  // slots in spans, of which 64 are skipped in one step. No free slot is touched. create() and destroy() do not become slower.
  template <class Visit>
  void for_each(Visit visit) const {
    const live_objects<T> objects(self().core_or_null());
    objects.for_each([&visit](T& object) { visit(object); });
  }
  // Destroys the objects for which the predicate is true; returns their number. The predicate must not destroy the object
  // itself; all else as for for_each().
  template <class Predicate>
  std::size_t erase_if(Predicate predicate) const {
    std::size_t erased = 0;
    const live_objects<T> objects(self().core_or_null());
    objects.for_each([&](T& object) {
      if (!predicate(object)) return;
      self().destroy(&object);
      ++erased;
    });
    return erased;
  }

 private:
  [[nodiscard]] const Self& self() const { return static_cast<const Self&>(*this); }
};

TARN_POOLS_END

}  // namespace detail
TARN_NAMESPACE_END
}  // namespace tarn
