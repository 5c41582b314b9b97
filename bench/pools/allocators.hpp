// SPDX-License-Identifier: MIT
// The contenders for containers: allocator<T> is a standard allocator, made by source.get<T>(). A source lives as long
//   as one container, or is empty where the memory behind is the process's.
// Thread safety: one thread.
#pragma once

#include <tarn/pooled.hpp>
#include <tarn/resources.hpp>

#include <memory>
#include <memory_resource>

#include "pools.hpp"

#if TARN_BENCH_BOOST
#include <boost/pool/pool_alloc.hpp>
#endif
#if TARN_BENCH_BOOST_CONTAINER
#include <boost/container/allocator.hpp>  // what node_allocator.hpp of Boost 1.74 forgets to include
#include <boost/container/node_allocator.hpp>
#include <boost/container/pmr/polymorphic_allocator.hpp>
#include <boost/container/pmr/unsynchronized_pool_resource.hpp>
#endif

namespace bench {

// For allocators without state.
template <template <class> class Allocator>
struct stateless_source {
  template <class T>
  [[nodiscard]] Allocator<T> get() const {
    return {};
  }
};

// For allocators that point to a memory resource.
template <class Resource, template <class> class Allocator>
struct resource_source {
  template <class T>
  [[nodiscard]] Allocator<T> get() {
    return Allocator<T>(&resource);
  }
  Resource resource;
};

// Single objects from the process's one pool of their type, arrays from std::allocator. The allocator carries the
// pool's address, so that no use asks whether the pool exists.
template <class T, class Contender>
class node_allocator {
 public:
  using value_type = T;
  template <class U>
  struct rebind {
    using other = node_allocator<U, Contender>;
  };

  node_allocator() : pool_(&shared()) {}
  template <class U>
  node_allocator(const node_allocator<U, Contender>& /*other*/) : node_allocator() {}

  T* allocate(std::size_t count) { return count == 1 ? pool_->take() : std::allocator<T>().allocate(count); }
  void deallocate(T* memory, std::size_t count) {
    if (count == 1) return pool_->give(memory);
    std::allocator<T>().deallocate(memory, count);
  }
  friend bool operator==(const node_allocator&, const node_allocator&) { return true; }

 private:
  using pool = typename Contender::template of<T>;
  static pool& shared() {
    static pool instance;
    return instance;
  }
  pool* pool_;
};

// A name as an argument of a template.
template <std::size_t Length>
struct text {
  consteval text(const char (&from)[Length]) { std::copy_n(from, Length, characters); }  // NOLINT: implicit
  char characters[Length];
};
template <text Name, class Source>
struct allocator_contender {
  static constexpr const char* name = Name.characters;
  using source = Source;
};
template <text Name, template <class> class Allocator>
using stateless_contender = allocator_contender<Name, stateless_source<Allocator>>;
template <text Name, class Resource>
using pmr_contender = allocator_contender<Name, resource_source<Resource, std::pmr::polymorphic_allocator>>;
template <class Contender>
struct node_contender {
  static constexpr const char* name = Contender::name;
  template <class T>
  using allocator = node_allocator<T, Contender>;
  using source = stateless_source<allocator>;
};

template <class T>
using classic_allocator_of = classic::pooled_allocator<T>;
template <class T>
using tarn_allocator_of = tarn::pooled_allocator<T>;

#if TARN_BENCH_BOOST
template <class T>
using boost_fast_of = boost::fast_pool_allocator<T>;
template <class T>
using boost_unlocked_of =
    boost::fast_pool_allocator<T, boost::default_user_allocator_new_delete, boost::details::pool::null_mutex>;
using boost_pool_allocators =
    contender_list<stateless_contender<"boost-fast-pool-allocator", boost_fast_of>,
                   stateless_contender<"boost-fast-pool-allocator-no-mutex", boost_unlocked_of>>;
#else
using boost_pool_allocators = contender_list<>;
#endif

#if TARN_BENCH_BOOST_CONTAINER
// Version 1 pools single nodes; version 2 does so only for Boost's own containers.
template <class T>
using boost_node_of = boost::container::node_allocator<T, boost::container::NodeAlloc_nodes_per_block, 1>;
using boost_pmr_source = resource_source<boost::container::pmr::unsynchronized_pool_resource,
                                         boost::container::pmr::polymorphic_allocator>;
using boost_container_allocators =
    contender_list<stateless_contender<"boost-node-allocator", boost_node_of>,
                   allocator_contender<"boost-pmr-unsynchronized", boost_pmr_source>>;
#else
using boost_container_allocators = contender_list<>;
#endif

#if TARN_BENCH_FOONATHAN
using foonathan_allocators = contender_list<node_contender<foonathan_pool>>;
#else
using foonathan_allocators = contender_list<>;
#endif

using container_allocators =
    join<contender_list<stateless_contender<"std-allocator", std::allocator>, node_contender<bare_chain>,
                        stateless_contender<"classic-pooled-allocator", classic_allocator_of>,
                        pmr_contender<"pmr-monotonic", std::pmr::monotonic_buffer_resource>,
                        pmr_contender<"pmr-unsynchronized", std::pmr::unsynchronized_pool_resource>,
                        pmr_contender<"pmr-synchronized", std::pmr::synchronized_pool_resource>>,
         boost_pool_allocators, boost_container_allocators, foonathan_allocators,
         contender_list<stateless_contender<"tarn-pooled-allocator", tarn_allocator_of>,
                        pmr_contender<"tarn-local-pool-resource", tarn::local_pool_resource>>>;

}  // namespace bench
