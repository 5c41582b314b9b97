// SPDX-License-Identifier: MIT
// The contenders for containers: allocator<T> is a standard allocator, made by source.get<T>(). A source lives as long
//   as one container, or is empty where the memory behind is the process's.
// Thread safety: one thread.
#pragma once

#include <tarn/pool_resource.hpp>
#include <tarn/pooled_allocator.hpp>

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

template <template <class> class Allocator>
struct stateless_contender {
  using source = stateless_source<Allocator>;
};
template <class Contender>
struct node_contender {
  template <class T>
  using allocator = node_allocator<T, Contender>;
  using source = stateless_source<allocator>;
};
template <class Resource>
struct pmr_contender {
  using source = resource_source<Resource, std::pmr::polymorphic_allocator>;
};

struct std_allocator : stateless_contender<std::allocator> {
  static constexpr const char* name = "std-allocator";
};
struct bare_chain_allocator : node_contender<bare_chain> {
  static constexpr const char* name = "bare-chain";
};
template <class T>
using classic_allocator_of = classic::pooled_allocator<T>;
struct classic_allocator : stateless_contender<classic_allocator_of> {
  static constexpr const char* name = "classic-pooled-allocator";
};
template <class T>
using tarn_allocator_of = tarn::pooled_allocator<T>;
struct tarn_allocator : stateless_contender<tarn_allocator_of> {
  static constexpr const char* name = "tarn-pooled-allocator";
};
struct pmr_monotonic : pmr_contender<std::pmr::monotonic_buffer_resource> {
  static constexpr const char* name = "pmr-monotonic";
};
struct pmr_unsynchronized_pool : pmr_contender<std::pmr::unsynchronized_pool_resource> {
  static constexpr const char* name = "pmr-unsynchronized";
};
struct pmr_synchronized_pool : pmr_contender<std::pmr::synchronized_pool_resource> {
  static constexpr const char* name = "pmr-synchronized";
};
struct tarn_local_resource : pmr_contender<tarn::local_pool_resource> {
  static constexpr const char* name = "tarn-local-pool-resource";
};

#if TARN_BENCH_BOOST
template <class T>
using boost_fast_of = boost::fast_pool_allocator<T>;
template <class T>
using boost_unlocked_of =
    boost::fast_pool_allocator<T, boost::default_user_allocator_new_delete, boost::details::pool::null_mutex>;
struct boost_fast : stateless_contender<boost_fast_of> {
  static constexpr const char* name = "boost-fast-pool-allocator";
};
struct boost_fast_unlocked : stateless_contender<boost_unlocked_of> {
  static constexpr const char* name = "boost-fast-pool-allocator-no-mutex";
};
using boost_pool_allocators = contender_list<boost_fast, boost_fast_unlocked>;
#else
using boost_pool_allocators = contender_list<>;
#endif

#if TARN_BENCH_BOOST_CONTAINER
// Version 1 pools single nodes; version 2 does so only for Boost's own containers.
template <class T>
using boost_node_of = boost::container::node_allocator<T, boost::container::NodeAlloc_nodes_per_block, 1>;
struct boost_node : stateless_contender<boost_node_of> {
  static constexpr const char* name = "boost-node-allocator";
};
struct boost_pmr_unsynchronized {
  static constexpr const char* name = "boost-pmr-unsynchronized";
  using source = resource_source<boost::container::pmr::unsynchronized_pool_resource,
                                 boost::container::pmr::polymorphic_allocator>;
};
using boost_container_allocators = contender_list<boost_node, boost_pmr_unsynchronized>;
#else
using boost_container_allocators = contender_list<>;
#endif

#if TARN_BENCH_FOONATHAN
struct foonathan_allocator : node_contender<foonathan_pool> {
  static constexpr const char* name = "foonathan";
};
using foonathan_allocators = contender_list<foonathan_allocator>;
#else
using foonathan_allocators = contender_list<>;
#endif

using container_allocators =
    join<contender_list<std_allocator, bare_chain_allocator, classic_allocator, pmr_monotonic,
                        pmr_unsynchronized_pool, pmr_synchronized_pool>,
         boost_pool_allocators, boost_container_allocators, foonathan_allocators,
         contender_list<tarn_allocator, tarn_local_resource>>;

}  // namespace bench
