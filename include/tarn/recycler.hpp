// SPDX-License-Identifier: MIT
// recycler<T>: objects that are expensive to build, kept constructed for the next user.
//
// A parser with its tables, an encoder with its buffers, a string with its capacity: get() hands out one that somebody
// has given back, with all that it has allocated, and builds one only where none waits. It looks in the calling thread's
// own array first, then among what other threads have handed over, then in their arrays, then in the older generation. The
// end of the handle gives the object back, in whichever thread.
//
// What is kept is bounded: in bytes, in objects, and by age. A generation lasts a cycle (2 s); what nobody has wanted for
// two of them is destroyed by a thread of the library's, so that a recycler that nobody uses is empty after two cycles and
// at most a second more. An object above `largest_object`, or one that holds far more memory than was used of late, is not
// kept either: one large request does not pin its buffer for ever.
// (Generations and stealing as in Go's sync.Pool, whose objects also vanish when nobody wants them; bounds in bytes are
// what its users miss most, golang/go#23199, #27735. Why arrays and a claim by system call instead of Go's deques, and
// figures: docs/design/0008.)
//
// Use it for objects whose constructor, or whose growth after it, costs more than some 100 ns. Do not for plain memory
// (object_pool), for large buffers (buffer_pool), for what must not vanish, such as connections that somebody counts on,
// nor where the caller can simply keep the object: reuse by hand is always as fast.
//
// Thread safety: all members may be called by any thread, but for the destructor.
// Failure: what the factory throws passes; std::bad_alloc. Giving back never fails: at worst the object is destroyed.
// Cost of get() and of giving back while the thread has objects and room: about ten instructions each, with no lock and
// no atomic read-modify-write; otherwise a lock and some 50 ns, or the factory.
#pragma once

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
#include "tarn/detail/recycler_abi.hpp"
#include "tarn/detail/type_name.hpp"
#include "tarn/object_pool.hpp"
#include "tarn/recycler_stats.hpp"

// In a debug build one object in four that comes back is destroyed, at random, so that nobody relies on its return. The
// same in all translation units of a program.
#ifndef TARN_RECYCLER_DROPS
#ifdef NDEBUG
#define TARN_RECYCLER_DROPS 0
#else
#define TARN_RECYCLER_DROPS 1
#endif
#endif

#if TARN_RECYCLER_DROPS
#define TARN_RECYCLER_MODE dropping
#else
#define TARN_RECYCLER_MODE keeping
#endif

namespace tarn {

// How objects of a type are made fit for the next user, and what they hold. Specialise it, or give an object with the
// same members to the recycler:
//   void reset(T&)                           called when an object comes back, so that nothing of its last use, such as a
//                                            secret, travels. If it throws, the object is destroyed
//   std::size_t retained_bytes(const T&)     all that the object holds while it waits, itself included; after reset
//   std::size_t used_bytes(const T&)         optional: how much of that its last user needed; before reset
// The standard: clear(), if T has it; the capacity() in elements, or bytes, and the size().
template <class T>
struct recycler_hooks {
  static void reset([[maybe_unused]] T& object) {
    if constexpr (requires { object.clear(); }) object.clear();
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
  std::size_t maximum_bytes = 64 << 20;  // of objects that wait; 0: no limit
  std::size_t maximum_objects = 0;       // likewise
  std::size_t largest_object = 0;  // bytes; one that holds more is not kept; 0: an eighth of maximum_bytes
  unsigned cycle_ms = 2000;        // a generation; 0: none ends by itself
  const char* name = nullptr;      // in statistics; the type's name if null
};

inline namespace TARN_POOL_MODE {
inline namespace TARN_RECYCLER_MODE {

template <class T, class Hooks = recycler_hooks<T>>
class recycler;

}  // namespace TARN_RECYCLER_MODE
}  // namespace TARN_POOL_MODE

namespace detail {

// What a checked recycler knows of an object.
enum class recycled_phase : std::uint32_t { out = 0x6f757430, waits = 0x77616974 };
struct recycled_check {
  const void* owner;  // the recycler's state
  recycled_phase phase;
  std::uint64_t sum;  // of the object's bytes while it waits
};
struct no_check {};

inline namespace TARN_POOL_MODE {

// The slot of an object: the object comes first, so that its address is the slot's.
template <class T>
struct recycled {
  union {
    T object;
  };
  [[no_unique_address]] std::conditional_t<TARN_CHECKED_POOLS != 0, recycled_check, no_check> check;

  recycled() noexcept {}   // NOLINT(modernize-use-equals-default): the object is constructed apart
  ~recycled() noexcept {}  // NOLINT(modernize-use-equals-default)
};

// Ends an object that has left its recycler.
template <class T>
struct recycled_deleter {
  void operator()(T* object) const noexcept {
    object->~T();
    pool_of<recycled<T>>().deallocate(reinterpret_cast<recycled<T>*>(object));
  }
};

}  // namespace TARN_POOL_MODE
}  // namespace detail

inline namespace TARN_POOL_MODE {

// An object that its user keeps for good; it knows nothing of the recycler any more.
template <class T>
using kept_ptr = std::unique_ptr<T, detail::recycled_deleter<T>>;

inline namespace TARN_RECYCLER_MODE {

template <class T, class Hooks>
class recycler {
  static_assert(std::is_object_v<T> && !std::is_const_v<T> && !std::is_array_v<T>,
                "a recycler keeps objects of a class, or other complete objects that may be changed");

  static constexpr bool measures = requires(Hooks& h, const T& object) { h.retained_bytes(object); };
  static constexpr bool knows_use = requires(Hooks& h, const T& object) { h.used_bytes(object); };

  using slot = detail::recycled<T>;

  // It outlives the recycler as long as one of its objects is out.
  struct state {
    template <class Factory>
    state(Factory&& make, Hooks&& h) : hooks(std::move(h)), factory(std::forward<Factory>(make)) {}

    tarn_recycler* core = nullptr;
    std::size_t number = 0;
    std::size_t largest = 0;
    [[no_unique_address]] Hooks hooks;
    std::atomic<std::size_t> references{1};  // the recycler, and each object that is its
    std::function<T()> factory;
  };

 public:
  using value_type = T;
  using factory = std::function<T()>;

  // The owner of an object while it is out: two words, and movable. Its end gives the object back.
  class handle {
   public:
    handle() noexcept = default;
    handle(handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)), state_(other.state_) {}
    handle& operator=(handle&& other) noexcept {
      handle(std::move(other)).swap(*this);
      return *this;
    }
    TARN_DETAIL_INLINE ~handle() {
      if (object_ != nullptr) give(state_, object_);
    }

    [[nodiscard]] T* get() const noexcept { return object_; }
    T& operator*() const noexcept { return *object_; }
    T* operator->() const noexcept { return object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }

    // Gives the object back now.
    void reset() noexcept { handle().swap(*this); }
    // Keeps the object for good.
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

    // mutable, although nobody changes it in a const handle: GCC 12 keeps constants with a constructor in memory, and a
    // pair with `const auto object = recycler.get()` took 1.4 times as long (docs/design/0008).
    mutable T* object_ = nullptr;
    state* state_ = nullptr;
  };

  // Throws std::bad_alloc.
  explicit recycler(factory make, const recycler_options& options = {}, Hooks hooks = {})
      : state_(new state(std::move(make), std::move(hooks))) {
    start(options);
  }
  explicit recycler(const recycler_options& options = {}, Hooks hooks = {})
    requires std::default_initializable<T>
      : state_(new state([] { return T(); }, std::move(hooks))) {
    start(options);
  }
  // Two recyclers would hand out the same objects.
  recycler(const recycler&) = delete;
  recycler& operator=(const recycler&) = delete;
  // Destroys what waits. Requires: no other thread is inside a call. Objects that are out stay their users'; they are
  // destroyed when they come back.
  ~recycler() {
    tarn_recycler_close(state_->core);
    leave(state_);
  }

  // An object that waits, or a new one. Throws what the factory throws, and std::bad_alloc.
  [[nodiscard]] TARN_DETAIL_INLINE handle get() { return handle(take(), state_); }

  // The same without a handle, for code that cannot hold one; give_back() is its end. An object that never comes back
  // costs its memory and nothing else.
  [[nodiscard]] TARN_DETAIL_INLINE T* take() {
    T* const object = static_cast<T*>(detail::pop(detail::local_recycler_bin(state_->number)));
    if (TARN_DETAIL_UNLIKELY(object == nullptr)) return take_slow();
    hand_out(object);
    return object;
  }
  // Requires: from take(), or a released handle's object whose pointer has been released, of this recycler; and not given
  // back since. Null is allowed.
  TARN_DETAIL_INLINE void give_back(T* object) noexcept {
    if (object != nullptr) give(state_, object);
  }

  // Cost: some microseconds; not for hot paths.
  [[nodiscard]] recycler_stats stats() const noexcept {
    tarn_recycler_figures figures{};
    tarn_recycler_get_figures(state_->core, &figures);
    return detail::stats_of(figures);
  }
  // Destroys what waits, but for what threads that are inside a call right now have. Returns the objects.
  std::size_t trim() noexcept { return tarn_recycler_trim(state_->core); }

 private:
  static constexpr std::size_t eighth = 8;
  // Objects below this are not worth a look at how much of them is used.
  static constexpr std::size_t oversized_from = 16384;
  // An object is oversized if it holds so many times what was used of late.
  static constexpr std::size_t oversized_factor = 4;
  // What was used of late: the most, which fades by such a part with each smaller use.
  static constexpr unsigned fade_shift = 5;

  void start(const recycler_options& options) {
    constexpr std::string_view type = detail::type_name<T>();
    const std::string_view name = options.name != nullptr ? std::string_view(options.name) : type;
    tarn_recycler_request request{};
    request.name = name.data();
    request.name_length = name.size();
    request.maximum_bytes = options.maximum_bytes;
    request.maximum_objects = options.maximum_objects;
    request.cycle_ms = options.cycle_ms;
    request.destroy = [](void* context, void* object) {
      end(static_cast<state*>(context), static_cast<T*>(object));
    };
    request.context = state_;
    std::size_t largest = options.largest_object;
    if (largest == 0) largest = options.maximum_bytes / eighth;
    state_->largest = largest != 0 ? largest : SIZE_MAX;
    state_->core = tarn_recycler_create(&request);
    if (state_->core == nullptr) {
      delete state_;
      detail::throw_bad_alloc();
    }
    state_->number = tarn_recycler_number(state_->core);
  }

  // ---- get ----

  TARN_DETAIL_INLINE void hand_out(T* object) const noexcept {
    detail::unpoison(object, sizeof(T));
    if constexpr (TARN_CHECKED_POOLS != 0) check_untouched(state_, object);
  }

  __attribute__((noinline)) T* take_slow() {
    if (auto* const object = static_cast<T*>(tarn_recycler_get_slow(state_->core))) {
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
    if (TARN_DETAIL_UNLIKELY(bytes > s->largest)) return drop(s, object, tarn_recycler_too_large);
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

  // Of the calling thread's bin, which only that thread changes.
  static bool is_oversized(tarn_recycler_bin* bin, std::size_t bytes, std::size_t used) noexcept {
    bin->recent_use =
        used > bin->recent_use ? used : bin->recent_use - ((bin->recent_use - used) >> fade_shift);
    return bytes / oversized_factor > bin->recent_use;
  }

  __attribute__((noinline)) static void give_slow(state* s, T* object, std::size_t bytes) noexcept {
    if (tarn_recycler_give_slow(s->core, object, bytes)) return;
    end(s, object);
  }

  TARN_DETAIL_COLD static void drop(state* s, T* object, tarn_recycler_drop reason) noexcept {
    tarn_recycler_note_drop(s->core, reason);
    end(s, object);
  }

  // Destroys an object, which may wait.
  static void end(state* s, T* object) noexcept {
    detail::unpoison(object, sizeof(T));
    if constexpr (TARN_CHECKED_POOLS != 0) {
      if (check_of(object).phase == detail::recycled_phase::waits) check_untouched(s, object);
    }
    detail::recycled_deleter<T>()(object);
    leave(s);
  }

  // An object, or the recycler, has to do with the state no more.
  static void leave(state* s) noexcept {
    // acq_rel: whoever is last sees what all others did.
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

template <class Factory, class Hooks = recycler_hooks<std::invoke_result_t<Factory>>>
recycler(Factory, recycler_options = {}, Hooks = {}) -> recycler<std::invoke_result_t<Factory>, Hooks>;

}  // namespace TARN_RECYCLER_MODE
}  // namespace TARN_POOL_MODE

}  // namespace tarn
