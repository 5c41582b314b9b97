// SPDX-License-Identifier: MIT
// recycler<T>: objects that are expensive to build, kept constructed for the next user.
//
// A parser with its tables, an encoder with its buffers, a string with its capacity: get() returns an idle object, with
// all memory that it has allocated, and builds a new one only if no object is idle. It looks in the calling thread's
// own array, then among arrays that other threads have handed over, then in other threads' arrays, then in the older
// generation. The destructor of the handle gives the object back, in any thread.
//
// Idle objects are bounded in bytes, in number, and by age. A generation lasts a cycle (2 s); an object that was not
// used for two cycles is destroyed by a thread of the library, so that an unused recycler is empty after two cycles
// and at most one second more. An object that holds more than `limit_per_object`, or far more memory than recent users
// needed, is destroyed when it comes back: one large request does not pin its buffer for ever. (Generations and
// stealing as in Go's sync.Pool, whose idle objects are dropped, too. Limits in bytes, which it lacks, are what its
// users ask for most: golang/go#23199, #27735. Why arrays and a claim by system call instead of Go's deques, and
// figures: docs/design/0008.)
//
// Use it for objects whose constructor, or whose growth after it, costs more than some 100 ns. Do not use it for plain
// memory (tarn/pool.hpp), for large buffers (buffer_pool), for objects that must not be destroyed on their own, such as
// connections that are counted, nor where the caller can simply keep the object: that is at least as fast.
//
// Thread safety: all members except the destructor may be called by any thread.
// Failure: get() throws what the factory throws, and std::bad_alloc. Giving back never fails: at worst the object is
// destroyed.
// Cost of get() and of giving back while the thread's array has objects or room: 20 to 25 instructions each, with no
// lock and no atomic read-modify-write; otherwise a lock and some 50 ns, or the factory.
// Units: bytes, unless a name says objects.
#pragma once

#include "tarn/detail/abi.hpp"

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tarn/detail/config.hpp"
#include "tarn/detail/construct.hpp"
#include "tarn/detail/milliseconds.hpp"
#include "tarn/detail/recycler_bin.hpp"
#include "tarn/detail/type_name.hpp"
#include "tarn/pool.hpp"

// With 1, as in checked builds: one object in four that comes back is destroyed, at random, so that code which relies on getting
// the same object again fails early. Must have the same value in all translation units of a program.
#ifndef TARN_RECYCLER_DROPS
#define TARN_RECYCLER_DROPS TARN_CHECKED_POOLS
#endif

#if TARN_RECYCLER_DROPS
#define TARN_RECYCLERS_BEGIN inline namespace dropping {
#define TARN_RECYCLERS_END }
#else
#define TARN_RECYCLERS_BEGIN
#define TARN_RECYCLERS_END
#endif

namespace tarn {
TARN_NAMESPACE_BEGIN

// How objects of a type are reset for the next user, and how much memory they hold. Specialise it, or pass an object
// with the same members to the recycler:
//   void reset(T&)                           called when an object comes back; must remove what the next user may not
//                                            see, such as a secret. If it throws, the object is destroyed
//   std::size_t retained_bytes(const T&)     called after reset: the bytes that the idle object holds, including itself
//   std::size_t used_bytes(const T&)         optional; called before reset: how many of them the last user needed
// Requires: the members may be called by several threads at once, for different objects.
// Default: reset() calls clear() if T has it, else reset(); the bytes come from capacity() and size(), counted in elements of
// T::value_type, or in bytes without it.
template <class T>
struct recycler_hooks {
  static void reset([[maybe_unused]] T& object) {
    if constexpr (requires { object.clear(); })
      object.clear();
    else if constexpr (requires { object.reset(); })
      object.reset();
  }
  static std::size_t retained_bytes(const T& object)
    requires requires {
      { object.capacity() } -> std::convertible_to<std::size_t>;
    }
  {
    return sizeof(T) + object.capacity() * element_bytes();
  }
  static std::size_t used_bytes(const T& object)
    requires requires {
      object.capacity();
      { object.size() } -> std::convertible_to<std::size_t>;
    }
  {
    return sizeof(T) + object.size() * element_bytes();
  }

 private:
  static constexpr std::size_t element_bytes() {
    if constexpr (requires { typename T::value_type; }) {
      return sizeof(typename T::value_type);
    } else {
      return 1;
    }
  }
};

// Hooks from functions: recycler_functions{[](parser& p) { p.clear(); }, [](const parser& p) { return p.bytes(); }}
template <class Reset, class RetainedBytes>
struct recycler_functions {
  Reset reset;
  RetainedBytes retained_bytes;
};
template <class Reset, class RetainedBytes>
recycler_functions(Reset, RetainedBytes) -> recycler_functions<Reset, RetainedBytes>;

struct recycler_options {
  std::size_t limit = 64 << 20;      // of idle objects; 0: none
  std::size_t limit_objects = 0;     // most idle objects; 0: any number
  std::size_t limit_per_object = 0;  // an object that holds more is not kept; 0: an eighth of `limit`
  // Length of a generation; 0: only trim() and memory pressure end one.
  milliseconds cycle = milliseconds::of(2000);
  const char* name = nullptr;  // in statistics; the type's name if null
};

using recycler_stats = tarn_recycler_stats;  // tarn/pool.h

TARN_POOLS_BEGIN
TARN_RECYCLERS_BEGIN

template <class T, class Hooks = recycler_hooks<T>>
class recycler;

TARN_RECYCLERS_END
TARN_POOLS_END

namespace detail {

// What a checked recycler stores after each object.
enum class recycled_phase : std::uint32_t { out = 0x6f757430, waits = 0x77616974 };
struct recycled_check {
  const void* owner;  // the recycler's state
  recycled_phase phase;
  std::uint64_t sum;  // checksum of the object's bytes while it is idle
};
struct no_check {};

TARN_POOLS_BEGIN

// The slot of an object. The object comes first, so that the object's address is the slot's:
//
//     | T object | recycled_check (checked builds only) |
template <class T>
struct recycled {
  union {
    T object;
  };
  [[no_unique_address]] std::conditional_t<TARN_CHECKED_POOLS != 0, recycled_check, no_check> check;

  recycled() noexcept {}   // NOLINT(modernize-use-equals-default): the object is constructed apart
  ~recycled() noexcept {}  // NOLINT(modernize-use-equals-default)
};

// Destroys an object and frees its slot.
template <class T>
struct recycled_deleter {
  void operator()(T* object) const noexcept {
    object->~T();
    pool_of<recycled<T>>().deallocate(reinterpret_cast<recycled<T>*>(object));
  }
};

TARN_POOLS_END

// What makes a recycler's objects, if the recycler's type follows from it. A pointer would be an object that nobody frees.
template <class Factory>
concept object_factory = std::is_invocable_v<Factory> && !std::is_pointer_v<std::invoke_result_t<Factory>>;
template <class Factory>
struct wrong_factory {};
template <class Factory>
concept refused_factory =
    !object_factory<Factory> && !std::is_convertible_v<Factory, recycler_options> &&
    !requires { typename Factory::handle; };  // a recycler, which is neither copied nor a factory

}  // namespace detail

TARN_POOLS_BEGIN

// Owner of an object that was released from its recycler; destroys it.
template <class T>
using kept_ptr = std::unique_ptr<T, detail::recycled_deleter<T>>;

TARN_RECYCLERS_BEGIN

template <class T, class Hooks>
class recycler {
  static constexpr bool measures = requires(Hooks& h, const T& object) { h.retained_bytes(object); };
  static constexpr bool knows_use = requires(Hooks& h, const T& object) { h.used_bytes(object); };

  using slot = detail::recycled<T>;

  // Outlives the recycler while the program holds one of its objects.
  struct state {
    state(std::function<T()>&& make, Hooks&& h) : hooks(std::move(h)), factory(std::move(make)) {}

    tarn_recycler* core = nullptr;
    std::size_t number = 0;
    std::size_t largest = 0;
    [[no_unique_address]] Hooks hooks;
    std::atomic<std::size_t> references{1};  // one of the recycler, and one of each object that it has built
    std::function<T()> factory;
  };

 public:
  using value_type = T;
  using factory = std::function<T()>;

  // Owner of an object in the program's hands: two words, movable, not thread-safe. Its destructor gives the object
  // back.
  class handle {
   public:
    handle() noexcept = default;
    handle(const handle&) = delete;  // an object has one user: std::move(handle), or pass a reference
    handle& operator=(const handle&) = delete;
    handle(handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)), state_(other.state_) {}
    handle& operator=(handle&& other) noexcept {
      handle(std::move(other)).swap(*this);
      return *this;
    }
    TARN_DETAIL_INLINE ~handle() {
      if constexpr (detail::require_complete<T>()) {
        if (object_ != nullptr) give(state_, object_);
      }
    }

    [[nodiscard]] T* get() const noexcept TARN_DETAIL_LIFETIME_BOUND { return object_; }
    T& operator*() const noexcept TARN_DETAIL_LIFETIME_BOUND { return *object_; }
    T* operator->() const noexcept { return object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }

    // Gives the object back now.
    void reset() noexcept { handle().swap(*this); }
    // Takes the object out of the recycler: it is destroyed, not given back, at the end of the returned pointer.
    [[nodiscard]] kept_ptr<T> release() noexcept {
      T* const object = std::exchange(object_, nullptr);
      if (object != nullptr) recycler::leave(state_);
      return kept_ptr<T>(object);
    }
    void swap(handle& other) noexcept {
      std::swap(object_, other.object_);
      std::swap(state_, other.state_);
    }

   private:
    friend class recycler;
    handle(T* object, state* from) noexcept : object_(object), state_(from) {}

    // mutable, although no const member changes it: GCC 12 keeps a const object with a constructor in memory, so that
    // get() and give-back of a `const auto object = recycler.get()` took 1.4 times as long (docs/design/0008).
    mutable T* object_ = nullptr;
    state* state_ = nullptr;
  };

  // Throws std::bad_alloc.
  explicit recycler(factory make, const recycler_options& options = {}, Hooks hooks = {})
      : state_(new state(std::move(make), std::move(hooks))) {
    start(options);
  }
  template <class Wrong, class... More>
    requires(!std::is_same_v<Wrong, recycler> && !std::is_convertible_v<const Wrong&, factory> &&
             !std::is_convertible_v<const Wrong&, recycler_options>)
  explicit recycler(const Wrong&, const More&...) = delete;  // a factory has no parameters and returns a T
  // Both require that T is default-constructible. They are templates without a constraint, because a class with a member
  // recycler<T> looks at them while a T that is nested in the class is not complete yet.
  template <class U = T>
  recycler() : recycler(recycler_options()) {}
  template <class U = T>
  explicit recycler(const recycler_options& options, Hooks hooks = {})
      : state_(new state(default_factory<U>(), std::move(hooks))) {
    start(options);
  }
  recycler(const recycler&) = delete;  // neither copied nor moved: pass a reference
  recycler& operator=(const recycler&) = delete;
  // Destroys the idle objects. Requires: no other thread is inside a call. Objects in the program's hands stay valid;
  // they are destroyed when they come back.
  ~recycler() {
    tarn_recycler_close(state_->core);
    leave(state_);
  }

  // An idle object, or a new one. Throws what the factory throws, and std::bad_alloc.
  [[nodiscard]] TARN_DETAIL_INLINE handle get() { return handle(take(), state_); }

  // The same without a handle, for code that cannot hold one; give_back() returns the object. An object that never
  // comes back leaks its memory and the recycler's state, nothing else.
  [[nodiscard]] TARN_DETAIL_INLINE T* take() {
    T* const object = static_cast<T*>(detail::pop(detail::local_recycler_bin(state_->number)));
    if constexpr (detail::require_complete<T>()) {
      if (TARN_DETAIL_UNLIKELY(object == nullptr)) return take_slow();
      hand_out(object);
    }
    return object;
  }
  // Requires: `object` is from take() of this recycler, and not given back since. Null is allowed.
  TARN_DETAIL_INLINE void give_back(T* object) noexcept {
    if (object != nullptr) give(state_, object);
  }

  // Cost: some microseconds; not for hot paths.
  [[nodiscard]] recycler_stats stats() const noexcept {
    recycler_stats stats{};
    tarn_recycler_get_stats(state_->core, &stats, sizeof stats);
    return stats;
  }
  // Destroys all idle objects, except those in arrays of threads that are inside a call at this moment. Returns their
  // number.
  std::size_t trim() noexcept { return tarn_recycler_trim(state_->core); }

 private:
  template <class U>
  static factory default_factory() {
    if constexpr (detail::require_creatable<U>()) {
      constexpr bool makes_itself = std::is_default_constructible_v<U>;
      static_assert(makes_itself,
                    "tarn: T has no default constructor: give the recycler a factory: [] { return T(…); }");
      if constexpr (makes_itself) return [] { return U(); };
    }
    return nullptr;
  }

  static constexpr std::size_t eighth = 8;
  // Objects that hold fewer bytes are never oversized.
  static constexpr std::size_t oversized_from = 16384;
  // An object is oversized if it holds more than this many times the recent use.
  static constexpr std::size_t oversized_factor = 4;
  // Recent use is the most bytes used; with each smaller use it moves towards that by 1/2^fade_shift of the difference.
  static constexpr unsigned fade_shift = 5;

  void start(const recycler_options& options) {
    constexpr std::string_view type = detail::type_name<T>();
    const std::string_view name = options.name != nullptr ? std::string_view(options.name) : type;
    tarn_recycler_options request = TARN_RECYCLER_OPTIONS;
    request.name = name.data();
    request.name_length = name.size();
    request.limit = options.limit;
    request.limit_objects = options.limit_objects;
    request.cycle_ms = options.cycle.count_or_limit();
    request.destroy = [](void* context, void* object) {
      if constexpr (detail::require_complete<T>()) end(static_cast<state*>(context), static_cast<T*>(object));
    };
    request.context = state_;
    std::size_t largest = options.limit_per_object;
    if (largest == 0) largest = options.limit / eighth;
    state_->largest = largest != 0 ? largest : SIZE_MAX;
    state_->core = tarn_recycler_create(&request);
    if (state_->core == nullptr) {
      delete state_;
      detail::throw_bad_alloc();
    }
    // If each object is too large, no thread has a bin for them, so that only the slow path needs to look.
    if constexpr (detail::require_complete<T>()) {
      state_->number =
          measures || sizeof(T) <= state_->largest ? tarn_recycler_number(state_->core) : SIZE_MAX;
    }
  }

  // ---- get ----

  TARN_DETAIL_INLINE void hand_out(T* object) const noexcept {
    detail::unpoison(object, sizeof(T));
    if constexpr (TARN_CHECKED_POOLS != 0) check_untouched(state_, object);
  }

  __attribute__((__noinline__)) T* take_slow() {
    if (auto* const object = static_cast<T*>(tarn_recycler_get(state_->core))) {
      hand_out(object);
      return object;
    }
    constexpr auto pool = pool_of<slot>();
    slot* const memory = pool.allocate();
    struct guard {
      slot* memory;
      ~guard() {
        if (memory != nullptr) pool_of<slot>().deallocate(memory);
      }
    } undo{memory};
    T* const object = ::new (static_cast<void*>(std::addressof(memory->object))) T(state_->factory());
    undo.memory = nullptr;
    if constexpr (TARN_CHECKED_POOLS != 0) {
      ::new (static_cast<void*>(&memory->check))
          detail::recycled_check{state_, detail::recycled_phase::out, 0};
    }
    state_->references.fetch_add(1, std::memory_order_relaxed);
    return object;
  }

  // ---- give back ----

  TARN_DETAIL_INLINE static void give(state* s, T* object) noexcept {
    if constexpr (TARN_CHECKED_POOLS != 0) check_out(s, object);
    tarn_recycler_bin* const bin = detail::local_recycler_bin(s->number);
    [[maybe_unused]] std::size_t used = 0;
    if constexpr (measures && knows_use) used = s->hooks.used_bytes(*object);
    if (!make_fit(s, object)) return;
    std::size_t bytes = sizeof(T);
    if constexpr (measures) {
      bytes = s->hooks.retained_bytes(*object);
      if (TARN_DETAIL_UNLIKELY(bytes == 0)) bytes = 1;
    }
    if (measures && TARN_DETAIL_UNLIKELY(bytes > s->largest)) return drop(s, object, tarn_recycler_too_large);
    if constexpr (measures && knows_use) {
      if (TARN_DETAIL_UNLIKELY(bytes >= oversized_from) && bin != nullptr && is_oversized(bin, bytes, used)) {
        return drop(s, object, tarn_recycler_oversized);
      }
    }
    if constexpr (TARN_RECYCLER_DROPS != 0) {
      if (tarn_recycler_draws_drop(s->core)) return end(s, object);
    }
    if constexpr (TARN_CHECKED_POOLS != 0) note_waits(object);
    detail::poison(object, sizeof(T));
    if (TARN_DETAIL_UNLIKELY(!detail::push(bin, object, bytes))) give_slow(s, object, bytes);
  }

  TARN_DETAIL_INLINE static bool make_fit(state* s, T* object) noexcept {
#if defined(__cpp_exceptions)
    if constexpr (!noexcept(s->hooks.reset(*object))) {
      try {
        s->hooks.reset(*object);
      } catch (...) {
        drop(s, object, tarn_recycler_unfit);
        return false;
      }
      return true;
    }
#endif
    s->hooks.reset(*object);
    return true;
  }

  // Updates the recent use in the calling thread's bin, and compares. Not atomic: only this thread uses the field.
  static bool is_oversized(tarn_recycler_bin* bin, std::size_t bytes, std::size_t used) noexcept {
    bin->recent_use =
        used > bin->recent_use ? used : bin->recent_use - ((bin->recent_use - used) >> fade_shift);
    return bytes / oversized_factor > bin->recent_use;
  }

  __attribute__((__noinline__)) static void give_slow(state* s, T* object, std::size_t bytes) noexcept {
    if (bytes > s->largest) return drop(s, object, tarn_recycler_too_large);
    if (tarn_recycler_give_back(s->core, object, bytes) != 0) return;
    end(s, object);
  }

  TARN_DETAIL_COLD static void drop(state* s, T* object, tarn_recycler_drop reason) noexcept {
    tarn_recycler_note_drop(s->core, reason);
    end(s, object);
  }

  // Destroys an object, idle or not.
  static void end(state* s, T* object) noexcept {
    detail::unpoison(object, sizeof(T));
    if constexpr (TARN_CHECKED_POOLS != 0) {
      if (check_of(object).phase == detail::recycled_phase::waits) check_untouched(s, object);
    }
    detail::recycled_deleter<T>()(object);
    leave(s);
  }

  // Drops one reference to the state: an object's, or the recycler's. The last one frees the state.
  static void leave(state* s) noexcept {
    // acq_rel: partner of the same operation in other threads; the last of them sees what all others did.
    if (s->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    tarn_recycler_free(s->core);
    delete s;
  }

  // ---- checked mode ----

  static detail::recycled_check& check_of(T* object) noexcept
    requires(TARN_CHECKED_POOLS != 0)
  {
    return reinterpret_cast<slot*>(object)->check;
  }

  static void check_out(state* s, T* object) noexcept
    requires(TARN_CHECKED_POOLS != 0)
  {
    pool_of<slot>().check(reinterpret_cast<slot*>(object), "give-back");
    const detail::recycled_check& c = check_of(object);
    if (c.phase == detail::recycled_phase::waits) tarn_recycler_fatal(s->core, "double give-back", object);
    if (c.owner != s) {
      tarn_recycler_fatal(s->core, "give-back of an object of another recycler to the one", object);
    }
  }
  static void note_waits(T* object) noexcept
    requires(TARN_CHECKED_POOLS != 0)
  {
    detail::recycled_check& c = check_of(object);
    c.phase = detail::recycled_phase::waits;
    c.sum = tarn_recycler_seal(object, sizeof(T));
  }
  static void check_untouched(state* s, T* object) noexcept
    requires(TARN_CHECKED_POOLS != 0)
  {
    detail::recycled_check& c = check_of(object);
    if (c.sum != tarn_recycler_unseal(object, sizeof(T))) {
      tarn_recycler_fatal(s->core, "write to an object after its give-back,", object);
    }
    c.phase = detail::recycled_phase::out;
  }

  state* const state_;
};

// Of a type that cannot be held: refused, with the reason.
template <class T, class Hooks>
  requires(!detail::is_held<T>)
class recycler<T, Hooks> : detail::refused_type<T> {};

// Of a factory that cannot make objects: refused, with the reason.
template <class Factory, class Hooks>
class recycler<detail::wrong_factory<Factory>, Hooks> {
  static_assert(
      !sizeof(Factory),
      "tarn: a factory has no parameters and returns a T, not a pointer: let it capture what it needs: "
      "[config] { return parser(config); }");

 public:
  template <class... Arguments>
  explicit recycler(const Arguments&...) {}
};

template <detail::object_factory Factory, class Hooks = recycler_hooks<std::invoke_result_t<Factory>>>
recycler(Factory, recycler_options = {}, Hooks = {}) -> recycler<std::invoke_result_t<Factory>, Hooks>;
template <detail::refused_factory Factory, class... More>
recycler(Factory, More...) -> recycler<detail::wrong_factory<Factory>>;

TARN_RECYCLERS_END
TARN_POOLS_END

TARN_NAMESPACE_END
}  // namespace tarn
