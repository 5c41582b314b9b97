// SPDX-License-Identifier: MIT
// pooled_allocator<T, Base>: a standard allocator whose single objects come from the process-wide pool of their type.
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
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tarn/object_pool.hpp"

namespace tarn {
inline namespace TARN_ABI {

inline namespace TARN_POOL_MODE {

// Requires: Base is an allocator of T with plain pointers. Equality, propagation, construct() and max_size() are those
// of Base. T may be incomplete until a member is called.
template <class T, class Base = std::allocator<T>>
class pooled_allocator {
  using base_traits = std::allocator_traits<Base>;
  static_assert(std::is_same_v<typename base_traits::value_type, T>, "Base allocates another type than T");
  static_assert(std::is_same_v<typename base_traits::pointer, T*>, "Base has pointers of its own kind");

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
    static_assert(detail::complete<T>,
                  "tarn: T is only declared here: include its definition before memory is taken");
    return TARN_DETAIL_LIKELY(count == 1) ? pool_of<T>().allocate() : base_traits::allocate(base_, count);
  }
  // Requires: from allocate(count) of an equal allocator.
  TARN_DETAIL_INLINE void deallocate(T* memory, size_type count) noexcept {
    if (TARN_DETAIL_LIKELY(count == 1)) return pool_of<T>().deallocate(memory);
    base_traits::deallocate(base_, memory, count);
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

}  // namespace TARN_POOL_MODE

namespace detail {

inline namespace TARN_POOL_MODE {

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

}  // namespace TARN_POOL_MODE

}  // namespace detail

inline namespace TARN_POOL_MODE {

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

}  // namespace TARN_POOL_MODE

}  // namespace TARN_ABI
}  // namespace tarn
