// SPDX-License-Identifier: MIT
// The pools of the benchmarks behind one interface, of<T>: take() gives memory for one T, give() takes it back.
// Thread safety: that of the pool; what only one thread may use is not in the lists of the threaded scenes.
#pragma once

#include <tarn/pool.hpp>

#include <memory_resource>
#include <mutex>

#include "bare_pools.hpp"
#include "classic_memory_pool.hpp"
#include "classic_object_pool.hpp"
#include "contender.hpp"

#if TARN_BENCH_BOOST
#include <boost/pool/object_pool.hpp>
#include <boost/pool/pool.hpp>
#include <boost/pool/singleton_pool.hpp>
#endif
#if TARN_BENCH_FOONATHAN
#include <foonathan/memory/memory_pool.hpp>
#endif

namespace bench {

// The caller's malloc: one preloaded library after the other.
struct new_delete {
  static constexpr const char* name = "new-delete";
  template <class T>
  struct of {
    T* take() { return new T; }
    void give(T* object) { delete object; }
  };
};

struct classic_memory_pool {
  static constexpr const char* name = "classic-memory-pool";
  template <class T>
  struct of {
    T* take() { return pool.allocate(); }
    void give(T* object) { pool.deallocate(object); }
    static inline constinit classic::memory_pool<T> pool;
  };
};

struct classic_memory_pool_tls {
  static constexpr const char* name = "classic-memory-pool-tls";
  template <class T>
  struct of {
    T* take() { return classic::thread_memory_pool<T>().allocate(); }
    void give(T* object) { classic::thread_memory_pool<T>().deallocate(object); }
  };
};

struct classic_object_pool {
  static constexpr const char* name = "classic-object-pool";
  template <class T>
  struct of {
    T* take() { return classic::object_pool<T>::allocate(); }
    void give(T* object) { classic::object_pool<T>::deallocate(object); }
  };
};

struct pmr_synchronized {
  static constexpr const char* name = "pmr-synchronized";
  template <class T>
  struct of {
    T* take() { return static_cast<T*>(pool.allocate(sizeof(T), alignof(T))); }
    void give(T* object) { pool.deallocate(object, sizeof(T), alignof(T)); }
    std::pmr::synchronized_pool_resource pool;
  };
};

#if TARN_BENCH_BOOST
struct boost_pool {
  static constexpr const char* name = "boost-pool";
  template <class T>
  struct of {
    T* take() { return static_cast<T*>(pool.malloc()); }
    void give(T* object) { pool.free(object); }
    boost::pool<> pool{sizeof(T)};
  };
};

struct boost_object_pool {
  static constexpr const char* name = "boost-object-pool";
  template <class T>
  struct of {
    T* take() { return pool.malloc(); }
    void give(T* object) { pool.free(object); }
    boost::object_pool<T> pool;
  };
};

struct boost_singleton_pool {
  static constexpr const char* name = "boost-singleton-pool";
  template <class T>
  struct of {
    using pool = boost::singleton_pool<boost_singleton_pool, sizeof(T)>;
    T* take() { return static_cast<T*>(pool::malloc()); }
    void give(T* object) { pool::free(object); }
  };
};

using local_boost_pools = contender_list<boost_pool, boost_object_pool>;
using shared_boost_pools = contender_list<boost_singleton_pool>;
#else
using local_boost_pools = contender_list<>;
using shared_boost_pools = contender_list<>;
#endif

#if TARN_BENCH_FOONATHAN
struct foonathan_pool {
  static constexpr const char* name = "foonathan";
  template <class T>
  struct of {
    using pool_type = foonathan::memory::memory_pool<>;
    static constexpr std::size_t node_size = std::max(sizeof(T), std::size_t{pool_type::min_node_size});
    T* take() { return static_cast<T*>(pool.allocate_node()); }
    void give(T* object) { pool.deallocate_node(object); }
    pool_type pool{node_size, pool_type::min_block_size(node_size, 64)};
  };
};

struct foonathan_mutex {
  static constexpr const char* name = "foonathan-mutex";
  template <class T>
  struct of {
    T* take() {
      const std::lock_guard<std::mutex> guard(lock);
      return pool.take();
    }
    void give(T* object) {
      const std::lock_guard<std::mutex> guard(lock);
      pool.give(object);
    }
    std::mutex lock;
    foonathan_pool::of<T> pool;
  };
};

using local_foonathan_pools = contender_list<foonathan_pool>;
using shared_foonathan_pools = contender_list<foonathan_mutex>;
#else
using local_foonathan_pools = contender_list<>;
using shared_foonathan_pools = contender_list<>;
#endif

template <class T, template <class> class Pool>
struct holder {
  T* take() { return pool.allocate(); }
  void give(T* object) { pool.deallocate(object); }
  Pool<T> pool;
};

struct tarn_local_pool {
  static constexpr const char* name = "tarn-local-pool";
  template <class T>
  using of = holder<T, tarn::local_pool>;
};

struct tarn_pool_of {
  static constexpr const char* name = "tarn-pool-of";
  template <class T>
  struct of {
    T* take() { return tarn::pool_of<T>().allocate(); }
    void give(T* object) { tarn::pool_of<T>().deallocate(object); }
  };
};

struct tarn_object_pool {
  static constexpr const char* name = "tarn-object-pool";
  template <class T>
  using of = holder<T, tarn::object_pool>;
};

// Those that any thread may use, and whose objects may change threads without piling up on one side.
using thread_safe_pools =
    join<contender_list<classic_object_pool, new_delete, pmr_synchronized>, shared_boost_pools,
         shared_foonathan_pools, contender_list<tarn_pool_of, tarn_object_pool>>;

}  // namespace bench
