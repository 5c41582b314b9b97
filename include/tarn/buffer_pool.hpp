// SPDX-License-Identifier: MIT
// buffer_pool: large buffers, 64 KiB to GiBs, that stay mapped and backed by memory between two uses; locked_buffer_pool for secrets,
// buffer_allocator<T> for std::vector.
//
//     tarn::buffer_pool frames({.name = "frames"});
//     tarn::buffer frame = frames.get(32 << 20);        // the second time: no page fault, some 100 ns
//     decode(frame.span());                             // the buffer goes back when `frame` is destroyed
//
// The page fault of a fresh page costs more than filling the page: 32 MiB from malloc or mmap, written and unmapped
// again, take ten times as long as the writing. A pool keeps a buffer that is given back, whole and backed by memory,
// for the next request of 80 to 100 % of its length; where none fits so well, it cuts a longer one. Idle buffers go to
// the system after an idle time, those beyond the limit soon. The limit follows the memory that the process may use
// (control groups), and shrinks when that runs short. (Best fit among idle buffers; why, and figures:
// docs/design/0009.)
//
// Use it for frames, images, tensors, scratch memory of queries, I/O blocks (O_DIRECT). Do not use it for many small
// objects (tarn/pool.hpp), for memory of one size that lives as long as the process, or where malloc is tarn's already
// and no limit, prefaulting, alignment or statistics are needed: tarn's large blocks stay backed in the same page
// heap.
//
// Thread safety: all members of pools except the destructor may be called by any thread; a buffer belongs to one
// thread at a time, and any thread may give it back. Lifetime: a buffer may outlive its pool; its memory is freed when
// it is given back. After fork both processes have a whole pool. Once a pool exists, files below /proc and
// /sys/fs/cgroup are read once a second while the pool is in use: a sandbox must allow openat, read and close, or let
// them fail, but not kill for them.
// Failure: std::bad_alloc, or an empty buffer from try_get. A failed call changes nothing.
// Cost: a hit takes two short locks; a miss a few µs and a page fault per page (or one system call, see
// buffer_prefault).
// Units are bytes. A buffer's content is indeterminate unless the pool is zeroed.
#pragma once

#include "tarn/detail/abi.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include "tarn/detail/buffers.hpp"
#include "tarn/detail/config.hpp"
#include "tarn/detail/construct.hpp"
#include "tarn/detail/milliseconds.hpp"
#include "tarn/pool.h"

namespace tarn {
TARN_NAMESPACE_BEGIN

TARN_POOLS_BEGIN

// When the pages of a fresh buffer are faulted in.
enum class buffer_prefault : std::uint8_t {
  never,   // by the program's first writes, page by page
  in_get,  // by get(), in one system call: a quarter cheaper, but for the whole buffer, used or not
  // By tarn's background thread: it keeps `ahead` buffers of the length last asked for ready. Without that thread
  // (TARN_BACKGROUND=off, sanitizers) as in_get.
  ahead,
};

// Whether the system is asked to back buffers with huge pages.
enum class buffer_huge_pages : std::uint8_t {
  automatic,  // as malloc does: in blocks of 4 MiB and more, once the heap has 16 MiB, while huge pages are cheap
  always,  // for all buffers, which are then aligned to 2 MiB
  never,
};

struct buffer_pool_options {
  const char* name = nullptr;  // in statistics and messages; its first 127 bytes
  // Of the buffers' addresses: a power of two up to 1 GiB; raised to 8 KiB, or to the system's page if that is larger.
  // Capacities are multiples of 8 KiB and of the system's page, so each buffer may be read and written with O_DIRECT
  // (except in checked builds).
  std::size_t alignment = 4096;
  bool zeroed = false;  // buffers are zero when get() returns them, by the cheaper of memset and fresh pages
  buffer_prefault prefault = buffer_prefault::never;
  std::size_t ahead = 1;  // how many buffers to keep ready with buffer_prefault::ahead
  buffer_huge_pages huge_pages = buffer_huge_pages::automatic;
  // Most bytes of idle buffers; 0: an eighth of the memory that the process may use. Never more than half of that
  // memory, and less while memory runs short.
  std::size_t limit = 0;
  // How long an idle buffer is kept, to within half of TARN_DECAY_MS. Negative, or with TARN_DECAY_MS=-1: for ever.
  milliseconds idle_time = milliseconds::of(5000);
};

// The first four as in buffer_pool_options.
struct locked_buffer_pool_options {
  const char* name = nullptr;
  std::size_t alignment = 4096;
  std::size_t limit = 0;
  milliseconds idle_time = milliseconds::of(5000);
  bool wiped_on_fork = false;  // a forked child finds zeroes in the buffers, live ones included
};

using buffer_pool_stats = tarn_buffer_stats;  // tarn/pool.h

// Owner of one buffer, or of none. Movable, not copyable; its destructor gives the buffer back. Not thread-safe.
class buffer {
 public:
  constexpr buffer() noexcept = default;
  buffer(buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  buffer& operator=(buffer&& other) noexcept {
    buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  buffer(const buffer&) = delete;  // memory has one owner: std::move(buffer), or pass span()
  buffer& operator=(const buffer&) = delete;
  ~buffer() { reset(); }

  [[nodiscard]] std::byte* data() const noexcept TARN_DETAIL_LIFETIME_BOUND { return data_; }
  // Bytes asked for.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  // Bytes that may be used.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::span<std::byte> span() const noexcept TARN_DETAIL_LIFETIME_BOUND {
    return {data_, size_};
  }
  [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }

  // Gives the buffer back now; nothing if there is none.
  void reset() noexcept {
    if (data_ != nullptr) tarn_buffer_give_back(nullptr, data_);
    data_ = nullptr;
    size_ = capacity_ = 0;
  }
  // Passes the ownership to the caller, who gives the buffer back by give_back() of its pool.
  [[nodiscard]] std::byte* release() noexcept {
    size_ = capacity_ = 0;
    return std::exchange(data_, nullptr);
  }
  void swap(buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }
  friend void swap(buffer& a, buffer& b) noexcept { a.swap(b); }

 private:
  friend class buffer_pool;
  friend class locked_buffer_pool;
  buffer(void* data, std::size_t size, std::size_t capacity) noexcept
      : data_(static_cast<std::byte*>(data)), size_(data != nullptr ? size : 0), capacity_(capacity) {}
  static buffer try_get(tarn_buffer_pool* pool, std::size_t bytes) noexcept {
    std::size_t capacity = 0;
    void* const data = tarn_buffer_get(pool, bytes, &capacity);
    return {data, bytes, capacity};
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

class buffer_pool {
 public:
  // Takes no memory for buffers yet. Both throw std::bad_alloc; std::system_error (EINVAL) for an invalid alignment.
  buffer_pool() : buffer_pool(buffer_pool_options()) {}
  explicit buffer_pool(const buffer_pool_options& options) {
    tarn_buffer_options request = TARN_BUFFER_OPTIONS;
    request.alignment = options.alignment;
    request.limit = options.limit;
    request.ahead = options.ahead;
    request.prefault = static_cast<int>(options.prefault);
    request.huge_pages = static_cast<int>(options.huge_pages);
    request.zeroed = options.zeroed ? 1 : 0;
    pool_ = detail::make_buffer_pool(request, options.name, options.idle_time);
  }
  buffer_pool(const buffer_pool&) = delete;  // neither copied nor moved: pass a reference
  buffer_pool& operator=(const buffer_pool&) = delete;
  // Requires: no other thread uses the pool any more. Buffers may be live.
  ~buffer_pool() { tarn_buffer_pool_destroy(pool_); }

  // A buffer of at least `bytes` bytes (0 is allowed); it occupies at least 64 KiB. Throws std::bad_alloc.
  [[nodiscard]] buffer get(std::size_t bytes) {
    buffer result = buffer::try_get(pool_, bytes);
    if (!result) detail::throw_bad_alloc();
    return result;
  }
  // Empty when there is no memory.
  [[nodiscard]] buffer try_get(std::size_t bytes) noexcept { return buffer::try_get(pool_, bytes); }
  // Requires: from buffer::release() of this pool (which checked builds check), and not given back since. Aborts with a
  // message on a pointer that is not a live buffer. Null is allowed.
  void give_back(std::byte* data) noexcept {
    if (data != nullptr) tarn_buffer_give_back(pool_, data);
  }

  // Makes idle buffers for requests of `bytes` bytes, backed by memory, until there are `count`. Throws std::bad_alloc;
  // std::system_error (EDQUOT) if they exceed the limit. Cost: a page fault's work per page.
  void reserve(std::size_t bytes, std::size_t count) {
    if (tarn_buffer_reserve(pool_, bytes, count) != 0) return;
    if (errno == EDQUOT) {
      detail::throw_system_error(
          EDQUOT, "tarn: " + std::to_string(count) + " buffers of " + std::to_string(bytes) +
                      " bytes are more than the pool's limit of " + std::to_string(stats().limit) + " bytes");
    }
    detail::throw_bad_alloc();
  }
  // Gives all idle buffers to the system now; returns the bytes.
  std::size_t trim() noexcept { return tarn_buffer_trim(pool_); }
  [[nodiscard]] buffer_pool_stats stats() const noexcept { return detail::stats_of(pool_); }
  // For buffer_allocator and buffer_resource.
  [[nodiscard]] tarn_buffer_pool* handle() const noexcept { return pool_; }

 private:
  tarn_buffer_pool* pool_ = nullptr;
};

// For keys and other secrets: buffers that are never swapped out, left out of core dumps, zero when get() returns them,
// and wiped as soon as they are given back. Thread safety and lifetime as buffer_pool.
// Cost: system calls per fresh buffer, and writing all of it when it comes back. RLIMIT_MEMLOCK limits the locked
// memory of the whole process, idle buffers included, often to 8 MiB; at the limit, idle buffers are released first.
// After fork the child's buffers are copies that are not locked until they have been given back and taken again. Do
// not use it for memory without secrets: buffer_pool writes nothing.
class locked_buffer_pool {
 public:
  // Throws as buffer_pool's constructor.
  locked_buffer_pool() : locked_buffer_pool(locked_buffer_pool_options()) {}
  explicit locked_buffer_pool(const locked_buffer_pool_options& options) {
    tarn_buffer_options request = TARN_BUFFER_OPTIONS;
    request.alignment = options.alignment;
    request.limit = options.limit;
    request.huge_pages = tarn_buffer_huge_never;
    request.locked = 1;
    request.wiped_on_fork = options.wiped_on_fork ? 1 : 0;
    pool_ = detail::make_buffer_pool(request, options.name, options.idle_time);
  }
  locked_buffer_pool(const locked_buffer_pool&) = delete;  // neither copied nor moved: pass a reference
  locked_buffer_pool& operator=(const locked_buffer_pool&) = delete;
  // As buffer_pool's.
  ~locked_buffer_pool() { tarn_buffer_pool_destroy(pool_); }

  // Throws std::bad_alloc, and std::system_error (EPERM) that names RLIMIT_MEMLOCK when no more may be locked.
  [[nodiscard]] buffer get(std::size_t bytes) {
    buffer result = buffer::try_get(pool_, bytes);
    if (!result) throw_failure(bytes);
    return result;
  }
  // Empty when there is no memory (errno ENOMEM), or no more may be locked (EPERM).
  [[nodiscard]] buffer try_get(std::size_t bytes) noexcept { return buffer::try_get(pool_, bytes); }
  // As buffer_pool::give_back; wipes the buffer.
  void give_back(std::byte* data) noexcept {
    if (data != nullptr) tarn_buffer_give_back(pool_, data);
  }
  std::size_t trim() noexcept { return tarn_buffer_trim(pool_); }
  [[nodiscard]] buffer_pool_stats stats() const noexcept { return detail::stats_of(pool_); }

 private:
  [[noreturn]] TARN_DETAIL_COLD static void throw_failure(std::size_t bytes) {
    if (errno != EPERM) detail::throw_bad_alloc();
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    detail::throw_system_error(
        EPERM, "tarn: a locked buffer of " + std::to_string(bytes) +
                   " bytes is more than the process may lock in memory: RLIMIT_MEMLOCK is " +
                   (limit.rlim_cur == RLIM_INFINITY ? std::string("unlimited")
                                                    : std::to_string(limit.rlim_cur) + " bytes") +
                   " (raise it by ulimit -l, LimitMEMLOCK= of systemd, or limits.conf)");
  }

  tarn_buffer_pool* pool_ = nullptr;
};

// Smaller requests do not go to a buffer pool.
inline constexpr std::size_t least_buffer_bytes = 65536;

// A standard allocator for large arrays, whose memory comes from a buffer pool.
//
//     std::vector<std::byte, tarn::buffer_allocator<std::byte>> image;
//     image.resize(32 << 20);              // a kept buffer as it is: no page fault, and nothing is written
//     image.resize(0), image.shrink_to_fit();   // the buffer goes back to the pool
//
// Elements that are constructed without arguments are default-initialised: resize(n) of bytes or floats writes nothing,
// and the elements' values are indeterminate until they are written. resize(n, value) writes all elements, as with
// std::allocator. For zeroes, pass the value, or use a zeroed pool.
//
// Where memory comes from: arrays of 64 KiB and more from the given pool, else from the process-wide one (all options
// at their defaults; it is never destroyed, so containers of any storage duration may use it); smaller ones from
// operator new. A moved container takes its allocator along; two allocators are equal if their pools are the same.
// Thread safety: as buffer_pool. Cost: as buffer_pool::get. Failure: std::bad_alloc; std::bad_array_new_length if the
// size overflows. Do not use it for std::deque, list or map, which never ask for 64 KiB at once; nor for vectors that
// grow by push_back to an unknown size: each growth takes a buffer and copies.
template <class T>
class buffer_allocator {
 public:
  using value_type = T;
  using propagate_on_container_copy_assignment = std::false_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  // From the process-wide pool.
  buffer_allocator() noexcept = default;
  // Requires: no allocation after the pool's end. Memory may be freed after it.
  explicit buffer_allocator(const buffer_pool& pool) noexcept : pool_(pool.handle()) {}
  template <class U>
  buffer_allocator(const buffer_allocator<U>& other) noexcept  // NOLINT(google-explicit-constructor)
      : pool_(other.handle()) {}

  [[nodiscard]] T* allocate(std::size_t count) {
    if constexpr (detail::require_complete<T>()) {
      // Every pool aligns its buffers at least to this. (Asked here, as T may be incomplete where the class is named.)
      static_assert(
          alignof(T) <= 4096,
          "tarn: T is aligned to more than 4096 bytes: take its array from a buffer_pool with that alignment");
      if (count > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T)) throw_bad_length();
      const std::size_t bytes = count * sizeof(T);
      if (bytes >= least_buffer_bytes) return static_cast<T*>(detail::take_buffer(pool_, bytes));
      return static_cast<T*>(::operator new(bytes, std::align_val_t{alignof(T)}));
    }
    return nullptr;
  }
  // Requires: from allocate(count) of an equal allocator.
  void deallocate(T* memory, std::size_t count) noexcept {
    const std::size_t bytes = count * sizeof(T);
    if (bytes >= least_buffer_bytes) return tarn_buffer_give_back(nullptr, memory);
#if defined(__cpp_sized_deallocation)
    ::operator delete(memory, bytes, std::align_val_t{alignof(T)});
#else
    ::operator delete(memory, std::align_val_t{alignof(T)});
#endif
  }

  // Default-initialises: a trivial type's value is not written.
  template <class U>
  void construct(U* object) noexcept(std::is_nothrow_default_constructible_v<U>) {
    ::new (static_cast<void*>(object)) U;
  }
  template <class U, class... Args>
  void construct(U* object, Args&&... args) {
    ::new (static_cast<void*>(object)) U(std::forward<Args>(args)...);
  }

  [[nodiscard]] tarn_buffer_pool* handle() const noexcept { return pool_; }

  template <class U>
  friend bool operator==(const buffer_allocator& a, const buffer_allocator<U>& b) noexcept {
    return a.handle() == b.handle();
  }

 private:
  [[noreturn]] TARN_DETAIL_COLD static void throw_bad_length() {
#if defined(__cpp_exceptions)
    throw std::bad_array_new_length();
#else
    std::abort();
#endif
  }

  tarn_buffer_pool* pool_ = nullptr;
};

template <class T>
  requires(!detail::is_allocated<T>)
class buffer_allocator<T> : detail::refused_element<T> {};

TARN_POOLS_END

TARN_NAMESPACE_END
}  // namespace tarn
