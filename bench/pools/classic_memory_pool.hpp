// SPDX-License-Identifier: MIT
// The classic per-type memory pool, as its published descriptions have it: a free list through the objects of one
//   type, chunks of them that stay until the pool ends, and an allocator for node containers over it. A contender of
//   the pool benchmarks, and as fast as the design allows.
// Owner: its user; one thread at a time. pooled_allocator gives each thread a pool of its own for each type.
// Invariant: every node of every chunk is either in the program's hands or in the free list, once.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace classic {

// Nodes per chunk; to be specialised for types that want another number.
template <class T>
inline constexpr std::size_t memory_chunk_size = 64;

// The union has T's alignment and room for the link.
template <class T>
union memory_node {
  memory_node* next;
  alignas(T) unsigned char object[sizeof(T)];
};

template <class T>
struct memory_chunk {
  memory_chunk* next;
  memory_node<T> nodes[memory_chunk_size<T>];
};

template <class T>
class memory_pool {
 public:
  constexpr memory_pool() = default;
  memory_pool(const memory_pool&) = delete;
  memory_pool& operator=(const memory_pool&) = delete;
  ~memory_pool() {
    while (chunks_ != nullptr) delete std::exchange(chunks_, chunks_->next);
  }

  T* allocate() {
    if (free_ == nullptr) [[unlikely]]
      add_chunk();
    memory_node<T>* const node = free_;
    free_ = node->next;
    return reinterpret_cast<T*>(node);
  }
  void deallocate(T* object) {
    auto* const node = reinterpret_cast<memory_node<T>*>(object);
    node->next = free_;
    free_ = node;
  }

 private:
  __attribute__((noinline)) void add_chunk() {
    auto* const chunk = new memory_chunk<T>;
    chunk->next = chunks_;
    chunks_ = chunk;
    for (std::size_t index = memory_chunk_size<T>; index-- > 0;) {
      chunk->nodes[index].next = free_;
      free_ = &chunk->nodes[index];
    }
  }

  memory_node<T>* free_ = nullptr;
  memory_chunk<T>* chunks_ = nullptr;
};

template <class T>
memory_pool<T>& thread_memory_pool() {
  static thread_local memory_pool<T> pool;
  return pool;
}

// Single objects from the thread's pool of their type, arrays from Base. All nodes go back in the thread that took
// them. Its constructor touches the pool, so that the pool ends after a container made in the same thread.
template <class T, class Base = std::allocator<T>>
class pooled_allocator : private Base {
 public:
  using value_type = T;
  template <class U>
  struct rebind {
    using other = pooled_allocator<U, typename std::allocator_traits<Base>::template rebind_alloc<U>>;
  };

  pooled_allocator() { thread_memory_pool<T>(); }
  template <class U, class Other>
  pooled_allocator(const pooled_allocator<U, Other>& /*other*/) : pooled_allocator() {}

  T* allocate(std::size_t count) {
    return count == 1 ? thread_memory_pool<T>().allocate() : Base::allocate(count);
  }
  void deallocate(T* memory, std::size_t count) {
    if (count == 1) return thread_memory_pool<T>().deallocate(memory);
    Base::deallocate(memory, count);
  }
  friend bool operator==(const pooled_allocator&, const pooled_allocator&) { return true; }
};

}  // namespace classic
