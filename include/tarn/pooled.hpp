// SPDX-License-Identifier: MIT
// The process-wide pools for code that is not changed: pooled<T>, a base that makes `new T` use the pool of T; and
// pooled_allocator<T>, a standard allocator for containers of nodes. node_of() tells which nodes a container has.
#pragma once

#include "tarn/detail/abi.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tarn/pool.hpp"

namespace tarn {
TARN_NAMESPACE_BEGIN

TARN_POOLS_BEGIN

// A base that makes `new T` and `delete` use the process-wide pool of T.
//
//     class order : public tarn::pooled<order> { … };
//     std::unique_ptr<order> one = std::make_unique<order>();     // code that creates orders is not changed
//
// Use it for a class whose objects are created by new in many places that are not to be changed. Do not use it for a
// class of which few objects exist at a time, or when the places can be changed: pool_of<T>() shows at the call that a
// pool is used.
//
// What comes from the pool: single objects of T's size and alignment, thus also those of derived classes that add no
// member. All others are allocated as without this base: larger or stricter aligned derived classes by ::operator new,
// arrays by ::operator new[]. A derived class that wants a pool of its own also derives from pooled<derived> and
// selects its operators:
//
//     class special : public order, public tarn::pooled<special> {
//      public:
//       using tarn::pooled<special>::operator new;
//       using tarn::pooled<special>::operator delete;
//     };
//
// Requires: a virtual destructor in a base through which objects are deleted, as always in C++; here operator delete
// also gets the object's size from it: without it, memory of a larger derived class would become a slot of T. The
// compiler cannot see that; such a delete ends the program with a message. T is the class itself: a class that names
// another one is refused where that one has no base of its own, else takes its pool where the sizes agree.
// std::make_shared and containers do not use a class's operator new: use pool_of<T>().make_shared and pooled_allocator.
// Thread safety: as new and delete; any thread may delete an object that another thread created.
// Failure: the new-handler is called as by ::operator new, then std::bad_alloc; null from the std::nothrow form.
// Cost: that of pool_of<T>(), inlined. Deleting an over-aligned object of a class that is not final takes some ns more,
// to find its pool by the address; so does deleting any object of T once there was one of a larger derived class, unless T
// is final or has a virtual destructor. The base adds no byte to T, and T may stay an aggregate.
//
// T is incomplete where the class is instantiated as T's base, so only the bodies of members may use sizeof(T).
template <class T>
class pooled {
 public:
  [[nodiscard]] TARN_DETAIL_INLINE static void* operator new(std::size_t size) {  // derive publicly
    return size == sizeof(T) ? take() : elsewhere(size);
  }
  [[nodiscard]] TARN_DETAIL_INLINE static void* operator new(std::size_t size, std::align_val_t alignment) {
    return is_pooled(size, alignment) ? take() : elsewhere(size, alignment);
  }
  [[nodiscard]] TARN_DETAIL_INLINE static void* operator new(std::size_t size,
                                                             const std::nothrow_t& tag) noexcept {
    return size == sizeof(T) ? try_take() : elsewhere(size, tag);
  }
  [[nodiscard]] TARN_DETAIL_INLINE static void* operator new(std::size_t size, std::align_val_t alignment,
                                                             const std::nothrow_t& tag) noexcept {
    return is_pooled(size, alignment) ? try_take() : elsewhere(size, alignment, tag);
  }
  // Placement new, which the class's other forms would hide.
  [[nodiscard]] TARN_DETAIL_INLINE static void* operator new(std::size_t /*size*/, void* where) noexcept {
    return where;
  }

  // Compilers prefer operator delete without a size where a class has one; so this class has none.
  TARN_DETAIL_INLINE static void operator delete(void* memory, std::size_t size) noexcept {
    if (size != sizeof(T)) return ::operator delete(memory);
    if constexpr (hides_size()) {
      // relaxed: whoever deletes an object sees what happened before the new that made it.
      if (TARN_DETAIL_UNLIKELY(larger_.load(std::memory_order_relaxed))) require_slot(memory);
    }
    give(memory);
  }
  // The forms without a size decide by the address whether the memory is a pool's. They are needed for over-aligned
  // classes, because compilers call only this form when such a constructor throws (without it GCC 12 and Clang 16 call
  // none at all), and after new (std::nothrow).
  static void operator delete(void* memory, std::align_val_t alignment) noexcept {
    if (!std::is_final_v<T> && tarn_pool_of(memory) == nullptr) return ::operator delete(memory, alignment);
    give(memory);
  }
  static void operator delete(void* memory, const std::nothrow_t& /*tag*/) noexcept {
    if (tarn_pool_of(memory) == nullptr) return ::operator delete(memory);
    give(memory);
  }
  static void operator delete(void* memory, std::align_val_t alignment,
                              const std::nothrow_t& /*tag*/) noexcept {
    operator delete(memory, alignment);
  }
  // Inlined also without optimisation; otherwise GCC warns of a deallocation of memory that was not allocated.
  TARN_DETAIL_INLINE static void operator delete(void* /*memory*/, void* /*where*/) noexcept {}

 private:
  // The forms without an alignment need no such check: the size of a derived class that is as large as T and not
  // over-aligned is a multiple of its alignment, so T's slots have that alignment (tarn_pool_request).
  static constexpr bool is_pooled(std::size_t size, std::align_val_t alignment) {
    return size == sizeof(T) && static_cast<std::size_t>(alignment) <= alignof(T);
  }

  // Whether an object of a larger class may be deleted through a pointer to T: then operator delete gets T's size.
  static constexpr bool hides_size() { return !std::is_final_v<T> && !std::has_virtual_destructor_v<T>; }
  __attribute__((__noinline__)) static void require_slot(const void* memory) noexcept {
    if (memory == nullptr || tarn_pool_of(memory) != nullptr) return;
    const tarn_pool_options request = detail::request_for<T>({});
    tarn_pool_check(tarn_pool_shared(&request), memory,
                    "delete of a derived class through its base, which needs a virtual destructor,");
  }

  // Not inlined: a compiler that sees ::operator new here, and the class's operator delete where a constructor throws,
  // warns of mismatched functions.
  template <class... Form>
  __attribute__((__noinline__)) static void* elsewhere(std::size_t size, const Form&... form) {
    if constexpr (hides_size()) larger_.store(true, std::memory_order_relaxed);
    return ::operator new(size, form...);
  }

  TARN_DETAIL_INLINE static void* try_take() noexcept {
    static_assert(
        std::is_base_of_v<pooled, T>,
        "tarn: the base names another class than its own: write class order : public pooled<order>");
    return pool_of<T>().try_allocate();
  }
  TARN_DETAIL_INLINE static void* take() {
    void* const slot = try_take();
    return TARN_DETAIL_LIKELY(slot != nullptr) ? slot : take_with_handler();
  }
  TARN_DETAIL_COLD static void* take_with_handler() {
    for (;;) {
      const std::new_handler handler = std::get_new_handler();
      if (handler == nullptr) detail::throw_bad_alloc();
      handler();
      if (void* const slot = try_take()) return slot;
    }
  }
  TARN_DETAIL_INLINE static void give(void* memory) noexcept {
    if (memory != nullptr) pool_of<T>().deallocate(static_cast<T*>(memory));
  }

  // Objects that were not in the pool have been created: those of larger classes that derive from T.
  static inline constinit std::atomic<bool> larger_{false};
};

// Of a type that cannot be held: refused, with the reason.
template <class T>
  requires(!detail::is_held<T>)
class pooled<T> : detail::refused_type<T> {};

// A standard allocator whose single objects come from the process-wide pool of their type.
//
//     std::map<int, quote, std::less<>, tarn::pooled_allocator<std::pair<const int, quote>>> quotes;
//
// Use it for node containers that grow and shrink: list, forward_list, map, set, unordered_*, and std::allocate_shared.
// Do not use it for vector, string or deque, which ask for arrays: those come from Base, so nothing is gained; nor for
// a container that is built once, or destroyed as a whole (an arena is cheaper).
//
// Where memory comes from: a request for one object comes from pool_of<U>(), where U is the type to which the container
// rebinds the allocator (its node, see node_of below); a request for any other number from Base. All containers with
// the same node type share a pool, in all threads, and any thread may free a node.
// Lifetime: the pools live as long as the process, and a thread may free nodes even while its thread-local objects are
// destroyed. So containers of any storage duration may be destroyed in any order, and no initialisation is needed.
// Thread safety: as Base. Failure: std::bad_alloc, and what Base throws. Cost: that of pool_of<U>(), inlined. The
// allocator is as large as Base, thus empty for std::allocator.
//
// Requires: Base is an allocator of T with plain pointers. Equality, propagation, construct() and max_size() are those
// of Base. T may be incomplete until a member is called.
template <class T, class Base = std::allocator<T>>
class pooled_allocator {
  using base_traits = std::allocator_traits<Base>;
  static_assert(std::is_same_v<typename base_traits::value_type, T>,
                "tarn: Base allocates another type than T: rebind it, as in std::allocator<T>");
  static_assert(std::is_same_v<typename base_traits::pointer, T*>,
                "tarn: Base has pointers of its own kind: pools need an allocator whose pointer is T*");

 public:
  using value_type = T;
  using size_type = typename base_traits::size_type;
  using difference_type = typename base_traits::difference_type;
  using propagate_on_container_copy_assignment = typename base_traits::propagate_on_container_copy_assignment;
  using propagate_on_container_move_assignment = typename base_traits::propagate_on_container_move_assignment;
  using propagate_on_container_swap = typename base_traits::propagate_on_container_swap;
  // All allocators share the pools, so two allocators differ only if their bases do.
  using is_always_equal = typename base_traits::is_always_equal;

  // Needed because the default rebind of std::allocator_traits would not rebind Base.
  template <class U>
  struct rebind {
    using other = pooled_allocator<U, typename base_traits::template rebind_alloc<U>>;
  };

  pooled_allocator() noexcept(std::is_nothrow_default_constructible_v<Base>)
    requires std::is_default_constructible_v<Base>
      : base_() {}
  explicit pooled_allocator(const Base& base) noexcept : base_(base) {}
  template <class U, class Other>
    requires(!std::is_same_v<U, T> && std::is_constructible_v<Base, const Other&>)
  pooled_allocator(const pooled_allocator<U, Other>& other) noexcept  // NOLINT(google-explicit-constructor)
      : base_(other.base()) {}

  [[nodiscard]] TARN_DETAIL_INLINE T* allocate(size_type count) {
    if constexpr (detail::require_complete<T>()) {
      if (TARN_DETAIL_UNLIKELY(count != 1)) return base_traits::allocate(base_, count);
    }
    return pool_of<T>().allocate();
  }
  // Requires: from allocate(count) of an equal allocator.
  TARN_DETAIL_INLINE void deallocate(T* memory, size_type count) noexcept {
    if constexpr (detail::require_complete<T>()) {
      if (TARN_DETAIL_UNLIKELY(count != 1)) return base_traits::deallocate(base_, memory, count);
    }
    pool_of<T>().deallocate(memory);
  }

  [[nodiscard]] size_type max_size() const noexcept { return base_traits::max_size(base_); }
  [[nodiscard]] pooled_allocator select_on_container_copy_construction() const {
    return pooled_allocator(base_traits::select_on_container_copy_construction(base_));
  }
  // construct() and destroy() exist only where Base has them: without them, containers know that construction is the
  // default one, and may copy by memcpy.
  template <class U, class... Args>
    requires requires(Base& base, U* object, Args&&... args) {
      base.construct(object, std::forward<Args>(args)...);
    }
  void construct(U* object, Args&&... args) {
    base_.construct(object, std::forward<Args>(args)...);
  }
  template <class U>
    requires requires(Base& base, U* object) { base.destroy(object); }
  void destroy(U* object) {
    base_.destroy(object);
  }

  [[nodiscard]] const Base& base() const noexcept { return base_; }

  template <class U, class Other>
  friend bool operator==(const pooled_allocator& a, const pooled_allocator<U, Other>& b) noexcept {
    if constexpr (std::is_same_v<Base, Other>) {
      return is_always_equal::value || a.base() == b.base();
    } else {
      return is_always_equal::value || a.base() == Base(b.base());
    }
  }

 private:
  [[no_unique_address]] Base base_;
};

template <class T, class Base>
  requires(!detail::is_allocated<T>)
class pooled_allocator<T, Base> : detail::refused_element<T> {};

// ---- which nodes a container has ----

// A type whose objects a container allocates one at a time. `name` is also the name of its pool in statistics.
struct node_type {
  std::string_view name;
  std::size_t size = 0;
  std::size_t alignment = 0;

  friend bool operator==(const node_type&, const node_type&) = default;
};

TARN_POOLS_END

namespace detail {

TARN_POOLS_BEGIN

// Allocates as std::allocator and records the type of the newest single object.
template <class T>
struct node_probe {
  using value_type = T;

  explicit node_probe(node_type* where) noexcept : found(where) {}
  template <class U>
  node_probe(const node_probe<U>& other) noexcept
      : found(other.found) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t count) {
    if (count == 1) *found = {type_name<T>(), sizeof(T), alignof(T)};
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, std::size_t count) noexcept { std::allocator<T>().deallocate(memory, count); }
  template <class U>
  friend bool operator==(const node_probe& a, const node_probe<U>& b) noexcept {
    return a.found == b.found;
  }

  node_type* found;
};

// The container type with its allocator replaced.
template <class Container, class Allocator>
struct with_allocator;
template <template <class...> class Container, class... Arguments, class Allocator>
struct with_allocator<Container<Arguments...>, Allocator> {
  template <class Argument>
  using replaced =
      std::conditional_t<std::is_same_v<Argument, typename Container<Arguments...>::allocator_type>,
                         Allocator, Argument>;
  using type = Container<replaced<Arguments>...>;
};

TARN_POOLS_END

}  // namespace detail

TARN_POOLS_BEGIN

// The type of Container's nodes: its name in the statistics of a pooled container, and the bytes that one element
// takes. Effects: builds an empty container of that kind with a probing allocator and emplaces one element,
// constructed from `element` (none: default-constructed). Cost: that of the container and the element; for startup or
// tests, not for a hot path. Requires: Container is list, forward_list, set, map, unordered_set, … or has their
// constructor from an allocator, and emplace or emplace_front; its comparison or hash is default-constructible; an
// element can be constructed from `element`. Failure: what the element's constructor or operator new throws. Returns
// an empty name and 0 for a container that allocates no single objects. Thread safety: any thread.
template <class Container, class... Element>
[[nodiscard]] node_type node_of(Element&&... element) {
  using probe = detail::node_probe<typename Container::value_type>;
  using probed = typename detail::with_allocator<Container, probe>::type;
  node_type found;
  probed container{probe(&found)};
  found = {};  // forgets allocations of the empty container, such as a sentinel node
  if constexpr (requires { container.emplace_front(std::forward<Element>(element)...); }) {
    container.emplace_front(std::forward<Element>(element)...);
  } else {
    container.emplace(std::forward<Element>(element)...);
  }
  return found;
}

TARN_POOLS_END

TARN_NAMESPACE_END
}  // namespace tarn
