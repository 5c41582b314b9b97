// SPDX-License-Identifier: MIT
// Pools of objects of one type: pool_of<T>(), the one of the process (a shared_pool<T>), and object_pool<T>, one of your own, whose
// objects any thread creates and destroys; local_pool<T> for one thread at a time, without any synchronisation.
//
// A slot comes from the calling thread's array of free slots (its magazine; no lock, no atomic read-modify-write), else
// from full magazines that other threads have handed over, else from the pool's spans in address order; slots that have
// been used before come before fresh ones. Empty spans go back to the page heap, and in time to the system: an idle
// pool shrinks. (Bonwick and Adams, "Magazines and Vmem", USENIX 2001. Why arrays of pointers and not lists through
// the free objects, and what both cost: docs/design/0006.)
//
// Use it when many objects of one type are created and destroyed, in several threads. Do not use it when malloc is not
// a measurable cost of the program (docs/how-to/which-pool.md says how to tell), when the objects' sizes differ much, or when
// all objects end at once: an arena is cheaper then.
//
// Thread safety: all members except the destructor may be called by any thread.
// Failure: std::bad_alloc, or null from the try_ forms; a constructor that throws leaves nothing behind.
// Cost of a hit: about six instructions in pool_of<T>(), 18 in an object_pool; of a miss, a lock and some 100 ns for up
// to 252 objects.
// Units: sizes are in bytes, unless a name says objects.
#pragma once

#include "tarn/detail/abi.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tarn/detail/config.hpp"
#include "tarn/detail/construct.hpp"
#include "tarn/detail/live_objects.hpp"
#include "tarn/detail/pool_front.hpp"
#include "tarn/detail/type_name.hpp"

namespace tarn {
TARN_NAMESPACE_BEGIN

TARN_POOLS_BEGIN

// Tunable by specialisation: the least number of objects in a span of a pool of T. 64, or as many as fit into 64 KiB if
// that is less. Spans are whole pages and grow with the pool, so a span of small objects usually holds more.
template <class T>
inline constexpr std::size_t objects_per_span =
    sizeof(T) * 64 <= 65536 ? 64 : (sizeof(T) <= 65536 ? 65536 / sizeof(T) : 1);

struct pool_options {
  std::size_t initial_capacity = 0;  // objects whose memory is taken at once
  std::size_t magazine_length =
      0;                       // most free slots in each of a thread's two magazines; 0: by size, at most 252
  std::size_t limit = 0;       // of the pool's spans; 0: no limit. Above it: std::bad_alloc
  unsigned shards = 0;         // most shards over which threads are spread, up to 64; 0: 32
  bool huge_pages = false;     // spans of 2 MiB, on huge pages where the system has them
  const char* name = nullptr;  // in statistics; the type's name if null
};

using pool_stats = tarn_pool_stats;  // tarn/pool.h

template <class T>
class object_pool;
template <class T>
class shared_pool;

TARN_POOLS_END

namespace detail {

TARN_POOLS_BEGIN

template <class T>
tarn_pool_options request_for(const pool_options& options) {
  constexpr std::string_view type = type_name<T>();
  const std::string_view name = options.name != nullptr ? std::string_view(options.name) : type;
  tarn_pool_options request = TARN_POOL_OPTIONS;
  if constexpr (require_complete<T>()) {
    request.object_size = sizeof(T);
    request.alignment = alignof(T);
    request.objects_per_span = objects_per_span<T>;
  }
  request.name = name.data();
  request.name_length = name.size();
  request.initial_capacity = options.initial_capacity;
  request.magazine_length = options.magazine_length;
  request.limit = options.limit;
  request.shards = options.shards;
  request.huge_pages = options.huge_pages ? 1 : 0;
  request.checked = TARN_CHECKED_POOLS;
  return request;
}

TARN_POOLS_END

}  // namespace detail

TARN_POOLS_BEGIN

// ---- smart pointers ----

// For pointers into process-wide pools. Empty, so that the pointer takes one word.
template <class T>
struct pool_deleter {
  void operator()(T* object) const noexcept;
};
// For pointers into an object_pool: finds the pool by the object's address. Empty, too; some ns slower.
template <class T>
struct owner_deleter {
  void operator()(T* object) const noexcept {
    if constexpr (TARN_CHECKED_POOLS != 0) tarn_pool_check(nullptr, object, "destroy");
    if constexpr (detail::require_complete<T>()) object->~T();
    tarn_pool_deallocate(object);
  }
};

// Owner of an object of a pool. With the default deleter, of the process-wide pool of T.
template <class T, class Deleter = pool_deleter<T>>
using pool_ptr = std::unique_ptr<T, Deleter>;

// ---- the process-wide pool ----

// The process-wide pool of T: a stateless handle, which pool_of<T>() returns. Usable before main and after it; the pool
// is never destroyed, so objects of any storage duration may come from it and go back to it. Thread safety: any thread.
template <class T>
class shared_pool : public detail::pool_front<shared_pool<T>, T> {
 public:
  // Takes memory for at least `objects` more objects. Throws std::bad_alloc.
  void reserve(std::size_t objects) const {
    if (core() == nullptr || !tarn_pool_reserve(core(), objects)) detail::throw_bad_alloc();
  }
  template <class... Args>
  [[nodiscard]] pool_ptr<T> make_unique(Args&&... args) const {
    return pool_ptr<T>(this->create(std::forward<Args>(args)...));
  }
  // The object and its control block lie in one slot of another process-wide pool, that of such pairs.
  template <class... Args>
  [[nodiscard]] std::shared_ptr<T> make_shared(Args&&... args) const {
    if constexpr (detail::require_creatable<T>()) {
      return std::allocate_shared<T>(detail::pair_allocator<T>(), std::forward<Args>(args)...);
    }
    return nullptr;
  }

  [[nodiscard]] pool_stats stats() const noexcept { return detail::stats_of(core()); }
  // Gives idle memory to the page heap; returns the bytes. tarn::trim() also gives it back to the system.
  std::size_t trim() const noexcept { return core() != nullptr ? tarn_pool_trim(pool_, &bin_) : 0; }

  // In checked builds: aborts unless the object is live and of this pool; `what`, the attempted operation, is named in
  // the message. Otherwise nothing.
  void check([[maybe_unused]] const T* object, [[maybe_unused]] const char* what = "destroy") const noexcept {
    if constexpr (TARN_CHECKED_POOLS != 0) tarn_pool_check(core(), object, what);
  }

 private:
  friend class detail::pool_front<shared_pool<T>, T>;

  [[nodiscard]] TARN_DETAIL_INLINE void* take() const noexcept {
    if constexpr (TARN_CHECKED_POOLS == 0) {
      // A bin that holds slots exists only where the thread knows the pool, so pool_ need not be read.
      if (void* const slot = detail::pop(bin_)) {
        detail::unpoison(slot, sizeof(T));
        return slot;
      }
    }
    return take_slow();
  }
  TARN_DETAIL_INLINE void give(void* slot) const noexcept {
    if constexpr (TARN_CHECKED_POOLS == 0) {
      detail::poison(slot, sizeof(T));
      if (TARN_DETAIL_LIKELY(detail::push(bin_, slot))) return;
    }
    give_slow(slot);
  }

  // A thread may free an object before it allocates one. It looks the pool up first, because without it the library
  // would accept an object of any pool.
  __attribute__((__noinline__)) static void give_slow(void* slot) noexcept {
    if constexpr (TARN_CHECKED_POOLS != 0) return tarn_pool_checked_deallocate(core(), &bin_, slot);
    tarn_pool_deallocate_slow(core(), &bin_, slot);
  }
  __attribute__((__noinline__)) static void* take_slow() noexcept {
    tarn_pool* const pool = core();
    return pool != nullptr ? detail::take_slot<T>(pool, &bin_) : nullptr;
  }
  // Null when there is no memory.
  static tarn_pool* core() noexcept {
    // A thread-local pointer: no other thread reads or writes it.
    if (TARN_DETAIL_LIKELY(pool_ != nullptr)) return pool_;
    return core_slow();
  }
  TARN_DETAIL_COLD static tarn_pool* core_slow() noexcept {
    const tarn_pool_options request = detail::request_for<T>({});
    pool_ = tarn_pool_shared(&request);
    return pool_;
  }

  // Per thread, so that it needs no atomic operation. The library finds the pool by name, size and alignment, so that
  // all libraries and programs into which this template is compiled share one pool.
  static inline constinit thread_local tarn_pool* pool_ = nullptr;
  static inline constinit thread_local tarn_pool_bin* bin_ = &detail::no_bin.bin;
};

// Of a type that cannot be held: refused, with the reason.
template <class T>
  requires(!detail::is_held<T>)
class shared_pool<T> : detail::refused_type<T> {};

// The process-wide pool of T.
template <class T>
constexpr const shared_pool<T>& pool_of() noexcept {
  return detail::the_pool<T>;
}

template <class T>
void pool_deleter<T>::operator()(T* object) const noexcept {
  pool_of<T>().destroy(object);
}

// ---- a pool of one's own ----

// A pool separate from all others, with options: a limit, its own statistics, its own lifetime. for_each() and erase_if()
// visit its objects, while no other thread uses it.
template <class T>
class object_pool : public detail::pool_front<object_pool<T>, T>,
                    public detail::pool_iteration<object_pool<T>, T> {
 public:
  // Both throw std::bad_alloc. (Two constructors, not one with a default argument: an explicit constructor could not
  // initialise a member of an aggregate that is initialised by {}.)
  object_pool() : object_pool(pool_options()) {}
  explicit object_pool(const pool_options& options)
      : pool_(make_core(detail::request_for<T>(options), this)) {
    if (pool_ == nullptr) detail::throw_bad_alloc();
    number_ = tarn_pool_number(pool_);
  }
  object_pool(const object_pool&) = delete;  // neither copied nor moved: pass a reference
  object_pool& operator=(const object_pool&) = delete;
  // Requires: no other thread uses the pool any more. If objects are live, the pool's memory stays for ever, and the
  // leak hook (tarn/process.hpp) is called with the pool's name and the number of live objects.
  ~object_pool() {
    if (tarn_pool* const pairs = pairs_.load(std::memory_order_relaxed)) tarn_pool_destroy(pairs);
    tarn_pool_destroy(pool_);
  }

  // Takes memory for at least `objects` more objects. Throws std::bad_alloc.
  void reserve(std::size_t objects) {
    if (!tarn_pool_reserve(pool_, objects)) detail::throw_bad_alloc();
  }
  template <class... Args>
  [[nodiscard]] pool_ptr<T, owner_deleter<T>> make_unique(Args&&... args) {
    return pool_ptr<T, owner_deleter<T>>(this->create(std::forward<Args>(args)...));
  }
  // The object and its control block lie in one slot of a second pool, which ends with this one. Requires: the last
  // pointer to the object is destroyed before the pool.
  template <class... Args>
  [[nodiscard]] std::shared_ptr<T> make_shared(Args&&... args) {
    if constexpr (detail::require_creatable<T>()) {
      return std::allocate_shared<T>(allocator<T>{this}, std::forward<Args>(args)...);
    }
    return nullptr;
  }

  [[nodiscard]] pool_stats stats() const noexcept { return detail::stats_of(pool_); }
  // Gives idle memory to the page heap; returns the bytes.
  std::size_t trim() {
    tarn_pool_bin* none = &detail::no_bin.bin;
    tarn_pool_bin** const bin = local_bin(number_);
    return tarn_pool_trim(pool_, bin != nullptr ? bin : &none);
  }

 private:
  friend class detail::pool_front<object_pool<T>, T>;
  friend class detail::pool_iteration<object_pool<T>, T>;

  template <class U>
  struct allocator {
    using value_type = U;
    explicit allocator(object_pool* owner) : pool(owner) {}
    template <class Other>
    allocator(const allocator<Other>& other) noexcept
        : pool(other.pool) {}  // NOLINT(google-explicit-constructor)
    U* allocate(std::size_t /*one*/) {
      tarn_pool* const pairs = pool->template pairs<U>();
      void* const slot = pairs != nullptr ? take_from<U>(pairs, tarn_pool_number(pairs)) : nullptr;
      if (slot == nullptr) detail::throw_bad_alloc();
      return static_cast<U*>(slot);
    }
    void deallocate(U* memory, std::size_t /*one*/) noexcept { tarn_pool_deallocate(memory); }
    friend bool operator==(const allocator& a, const allocator& b) noexcept { return a.pool == b.pool; }
    object_pool* pool;
  };

  static tarn_pool* make_core(tarn_pool_options request, const object_pool* self) {
    request.owner = self;
    return tarn_pool_create(&request);
  }

  // Where the calling thread keeps the pointer to its bin; null if its table has no entry `number` yet.
  TARN_DETAIL_INLINE static tarn_pool_bin** local_bin(std::size_t number) noexcept {
    return TARN_DETAIL_LIKELY(number < tarn_pool_local_bins.count) ? tarn_pool_local_bins.bins + number
                                                                   : nullptr;
  }
  template <class U>
  TARN_DETAIL_INLINE static void* take_from(tarn_pool* pool, std::size_t number) noexcept {
    tarn_pool_bin* none = &detail::no_bin.bin;
    tarn_pool_bin** const bin = local_bin(number);
    return detail::take_slot<U>(pool, bin != nullptr ? bin : &none);
  }
  [[nodiscard]] tarn_pool* core_or_null() const noexcept { return pool_; }
  [[nodiscard]] TARN_DETAIL_INLINE void* take() const noexcept { return take_from<T>(pool_, number_); }
  TARN_DETAIL_INLINE void give(void* slot) const noexcept {
    tarn_pool_bin* none = &detail::no_bin.bin;
    tarn_pool_bin** const bin = local_bin(number_);
    detail::give_slot<T>(pool_, bin != nullptr ? bin : &none, slot);
  }
  void check(const T* object) const noexcept { tarn_pool_check(pool_, object, "destroy"); }

  // The pool for objects with their control blocks, created by the first call. Null when there is no memory.
  template <class U>
  tarn_pool* pairs() noexcept {
    // acquire: partner of the release by compare_exchange_strong() below; the pool is complete. On failure, too.
    tarn_pool* existing = pairs_.load(std::memory_order_acquire);
    if (existing != nullptr) return existing;
    tarn_pool* const made = make_core(detail::request_for<U>({}), this);
    if (made == nullptr) return nullptr;
    if (pairs_.compare_exchange_strong(existing, made, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      return made;
    }
    tarn_pool_destroy(made);
    return existing;
  }

  tarn_pool* pool_;
  std::size_t number_ = 0;
  std::atomic<tarn_pool*> pairs_{nullptr};
};

// Of a type that cannot be held: refused, with the reason.
template <class T>
  requires(!detail::is_held<T>)
class object_pool<T> : detail::refused_type<T> {};

// Objects of one type for one thread at a time, without any synchronisation on a hit.
//
// for_each() and erase_if() visit its objects (std::hive's use, without an iterator that stays valid).
//
// Use it for the objects of one worker, one request, one container. Do not use it when single objects are created in
// one thread and destroyed in another: use object_pool.
//
// Thread safety: none; calls must not overlap. The pool and its objects may move to another thread as a whole.
// Failure: as object_pool. Cost of a hit: five instructions. sizeof(local_pool<T>): 136 bytes.
// Memory: from the first use on a span of at least objects_per_span<T> objects (whole pages of 8 KiB).
// (An array of free slots before spans, as object_pool; figures: docs/design/0006.)
template <class T>
class local_pool : public detail::pool_front<local_pool<T>, T>,
                   public detail::pool_iteration<local_pool<T>, T> {
 public:
  // Takes no memory yet.
  local_pool() = default;
  local_pool(const local_pool&) = delete;  // neither copied nor moved: pass a reference
  local_pool& operator=(const local_pool&) = delete;
  // Frees the memory if no object is live. Otherwise the memory stays for ever, and the leak hook (tarn/process.hpp) is
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
    tarn_pool_options request = detail::request_for<T>({});
    request.single_thread = 1;
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

TARN_POOLS_END

TARN_NAMESPACE_END
}  // namespace tarn
