// SPDX-License-Identifier: MIT
// object_pool<T>: objects of one type, created and destroyed by any thread.
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
#include "tarn/detail/pool_abi.hpp"
#include "tarn/detail/type_name.hpp"

namespace tarn {
inline namespace TARN_ABI {

inline namespace TARN_POOL_MODE {

// Tunable by specialisation: the least number of objects in a span of a pool of T. 64, or as many as fit into 64 KiB if
// that is less. Spans are whole pages and grow with the pool, so a span of small objects usually holds more.
template <class T>
inline constexpr std::size_t chunk_objects =
    sizeof(T) * 64 <= 65536 ? 64 : (sizeof(T) <= 65536 ? 65536 / sizeof(T) : 1);

struct pool_options {
  std::size_t initial_capacity = 0;  // objects whose memory is taken at once
  std::size_t magazine_length =
      0;  // most free slots in each of a thread's two magazines; 0: by size, at most 252
  std::size_t maximum_bytes = 0;  // of the pool's spans; 0: no limit. Above it: std::bad_alloc
  unsigned shards = 0;            // most shards over which threads are spread, up to 64; 0: 32
  bool huge_pages = false;        // spans of 2 MiB, on huge pages where the system has them
  const char* name = nullptr;     // in statistics; the type's name if null
};

struct pool_stats {
  std::size_t live;    // objects in the program's hands
  std::size_t peak;    // upper bound of the most live objects at once: slots outside of spans, seen at misses
  std::size_t bytes;   // of the pool's spans
  std::size_t cached;  // free slots in magazines, of threads or handed over
  // Slots that misses have loaded into threads' magazines, without those that served the misses themselves: the
  // allocations that can then be served without a further miss. A slot that is freed and allocated again inside one
  // magazine counts once, as the fast path keeps no counter.
  std::uint64_t hits;
  std::uint64_t refills;  // allocations that had to fill a magazine from spans
};

template <class T>
class object_pool;
template <class T>
class shared_pool;

}  // namespace TARN_POOL_MODE

namespace detail {

inline namespace TARN_POOL_MODE {

template <class T>
tarn_pool_request request_for(const pool_options& options) {
  static_assert(complete<T>,
                "tarn: T is only declared here: include its definition before a pool of it is used");
  constexpr std::string_view type = type_name<T>();
  const std::string_view name = options.name != nullptr ? std::string_view(options.name) : type;
  tarn_pool_request request{};
  request.size = sizeof(T);
  request.alignment = alignof(T);
  request.name = name.data();
  request.name_length = name.size();
  request.chunk_objects = chunk_objects<T>;
  request.initial_capacity = options.initial_capacity;
  request.magazine_length = options.magazine_length;
  request.maximum_bytes = options.maximum_bytes;
  request.shards = options.shards;
  request.huge_pages = options.huge_pages;
  request.checked = TARN_CHECKED_POOLS != 0;
  return request;
}

// Takes a free slot from the thread's bin, else from the library; null when there is no memory. give_slot() gives a
// slot back the same way. `bin` is where the thread keeps the pointer to its bin.
template <class T>
TARN_DETAIL_INLINE void* take_slot(tarn_pool* pool, tarn_pool_bin** bin) noexcept {
  if constexpr (TARN_CHECKED_POOLS != 0) return tarn_pool_checked_allocate(pool, bin);
  void* slot = pop(*bin);
  if (TARN_DETAIL_UNLIKELY(slot == nullptr)) {
    slot = tarn_pool_allocate_slow(pool, bin);
    if (slot == nullptr) return nullptr;
  }
  unpoison(slot, sizeof(T));
  return slot;
}
template <class T>
TARN_DETAIL_INLINE void give_slot(tarn_pool* pool, tarn_pool_bin** bin, void* slot) noexcept {
  if constexpr (TARN_CHECKED_POOLS != 0) return tarn_pool_checked_deallocate(pool, bin, slot);
  poison(slot, sizeof(T));
  if (TARN_DETAIL_UNLIKELY(!push(*bin, slot))) tarn_pool_deallocate_slow(pool, bin, slot);
}

inline tarn_pool_figures figures_of(const tarn_pool* pool) noexcept {
  tarn_pool_figures figures{};
  if (pool != nullptr) tarn_pool_get_figures(pool, &figures);
  return figures;
}
inline pool_stats stats_of(const tarn_pool_figures& f) noexcept {
  return {f.live, f.peak, f.bytes, f.cached, f.hits, f.refills};
}
inline pool_stats stats_of(const tarn_pool* pool) noexcept { return stats_of(figures_of(pool)); }

// The members that all pools share (CRTP). Requires of Self: void* take(), which returns a slot of T's size and
// alignment, or null when there is no memory; void give(void*); and in checked builds void check(const T*).
template <class Self, class T>
class pool_front {
 public:
  using value_type = T;

  // Memory for one T; deallocate() frees it. No constructor or destructor runs.
  [[nodiscard]] TARN_DETAIL_INLINE T* allocate() const {
    static_assert(complete<T>,
                  "tarn: T is only declared here: include its definition before memory is taken");
    void* const slot = self().take();
    if (TARN_DETAIL_UNLIKELY(slot == nullptr)) throw_bad_alloc();
    return static_cast<T*>(slot);
  }
  [[nodiscard]] TARN_DETAIL_INLINE T* try_allocate() const noexcept { return static_cast<T*>(self().take()); }
  // Requires: from allocate() of this pool, and not freed since.
  TARN_DETAIL_INLINE void deallocate(T* memory) const noexcept { self().give(memory); }

  // A new T. Throws std::bad_alloc, and what the constructor throws; in that case the slot is back in the pool.
  template <class... Args>
  [[nodiscard]] TARN_DETAIL_INLINE T* create(Args&&... args) const {
    require_creatable<T>();
    return construct(allocate(), std::forward<Args>(args)...);
  }
  // Null when there is no memory. Throws what the constructor throws.
  template <class... Args>
  [[nodiscard]] TARN_DETAIL_INLINE T* try_create(Args&&... args) const {
    require_creatable<T>();
    T* const memory = try_allocate();
    return memory != nullptr ? construct(memory, std::forward<Args>(args)...) : nullptr;
  }
  // As create() and try_create() without arguments, but T is default-initialised, as by
  // std::make_unique_for_overwrite: members without constructor and initialiser are written by the caller, not by the
  // pool. Cost: for such a T that of allocate(), whatever its size.
  [[nodiscard]] TARN_DETAIL_INLINE T* create_for_overwrite() const { return create(for_overwrite{}); }
  [[nodiscard]] TARN_DETAIL_INLINE T* try_create_for_overwrite() const { return try_create(for_overwrite{}); }
  // Destroys the object and frees its slot. Null is allowed. Requires: from a create function of this pool, and of dynamic type
  // T (the pool would free a slot of another size through a pointer to a base).
  TARN_DETAIL_INLINE void destroy(T* object) const noexcept {
    if (object == nullptr) return;
    if constexpr (TARN_CHECKED_POOLS != 0) self().check(object);
    object->~T();
    deallocate(object);
  }

 private:
  [[nodiscard]] const Self& self() const { return static_cast<const Self&>(*this); }

  template <class... Args>
  TARN_DETAIL_INLINE T* construct(T* memory, Args&&... args) const {
    if constexpr (noexcept(detail::construct<T>(memory, std::forward<Args>(args)...))) {
      return detail::construct<T>(memory, std::forward<Args>(args)...);
    } else {
      struct slot_guard {
        const pool_front* pool;
        T* slot;
        ~slot_guard() {
          if (slot != nullptr) pool->deallocate(slot);
        }
      } guard{this, memory};
      T* const object = detail::construct<T>(memory, std::forward<Args>(args)...);
      guard.slot = nullptr;
      return object;
    }
  }
};

}  // namespace TARN_POOL_MODE

}  // namespace detail

inline namespace TARN_POOL_MODE {

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
    object->~T();
    tarn_pool_deallocate(object);
  }
};

// Owner of an object of a pool. With the default deleter, of the process-wide pool of T.
template <class T, class Deleter = pool_deleter<T>>
using pool_ptr = std::unique_ptr<T, Deleter>;

}  // namespace TARN_POOL_MODE

// ---- the process-wide pool ----

namespace detail {

inline namespace TARN_POOL_MODE {

// What make_shared passes to std::allocate_shared, which rebinds it to its own type of object and control block and
// allocates one of that.
template <class T>
struct pair_allocator {
  using value_type = T;
  pair_allocator() = default;
  template <class Other>
  pair_allocator(const pair_allocator<Other>& /*other*/) noexcept {}  // NOLINT(google-explicit-constructor)
  T* allocate(std::size_t /*one*/) { return shared_pool<T>().allocate(); }
  void deallocate(T* memory, std::size_t /*one*/) noexcept { shared_pool<T>().deallocate(memory); }
  friend bool operator==(pair_allocator, pair_allocator) noexcept { return true; }
};

}  // namespace TARN_POOL_MODE

}  // namespace detail

inline namespace TARN_POOL_MODE {

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
    detail::require_creatable<T>();
    return std::allocate_shared<T>(detail::pair_allocator<T>(), std::forward<Args>(args)...);
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
  __attribute__((noinline)) static void give_slow(void* slot) noexcept {
    if constexpr (TARN_CHECKED_POOLS != 0) return tarn_pool_checked_deallocate(core(), &bin_, slot);
    tarn_pool_deallocate_slow(core(), &bin_, slot);
  }
  __attribute__((noinline)) static void* take_slow() noexcept {
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
    const tarn_pool_request request = detail::request_for<T>({});
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

}  // namespace TARN_POOL_MODE

namespace detail {

inline namespace TARN_POOL_MODE {

// An empty object, so that both `auto pool` and `auto& pool` can hold what pool_of() returns.
template <class T>
inline constexpr shared_pool<T> the_pool{};

}  // namespace TARN_POOL_MODE

}  // namespace detail

inline namespace TARN_POOL_MODE {

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
  object_pool(const object_pool&) = delete;
  object_pool& operator=(const object_pool&) = delete;
  // Requires: no other thread uses the pool any more. If objects are live, the pool's memory stays for ever, and the
  // leak hook (tarn/stats.hpp) is called with the pool's name and the number of live objects.
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
    detail::require_creatable<T>();
    return std::allocate_shared<T>(allocator<T>{this}, std::forward<Args>(args)...);
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

  static tarn_pool* make_core(tarn_pool_request request, const object_pool* self) {
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

}  // namespace TARN_POOL_MODE

}  // namespace TARN_ABI
}  // namespace tarn
