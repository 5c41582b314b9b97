// SPDX-License-Identifier: MIT
// thread.*: what concerns the calling thread. tcache.*: explicit caches. Each is a number; allocations that name it use
// the cache of the calling thread.
#include <atomic>
#include <cstdint>

#include "engine/engine.hpp"
#include "malloc/jemalloc/tree.hpp"

namespace tarn::jemalloc {
namespace {

// What the pointers of thread.allocatedp and thread.deallocatedp lead to.
thread_local constinit engine::traffic traffic_of_caller;

engine::traffic& counted() {
  traffic_of_caller = engine::traffic_of_thread();
  return traffic_of_caller;
}

void flush() {
  if (engine::local_cache != &engine::no_cache) engine::local_cache->flush_all();
}

// From now on the thread's slow calls of malloc keep the figures up to date. The next call of each size is one: a client
// may look whether its malloc is counted here, and believes that this is another library if it sees nothing.
engine::traffic& followed() {
  engine::noted_traffic = &traffic_of_caller;
  flush();
  return counted();
}

int handle_allocated(const request& r) { return give_only(r, counted().allocated); }
int handle_deallocated(const request& r) { return give_only(r, counted().freed); }
int handle_allocatedp(const request& r) { return give_only(r, &followed().allocated); }
int handle_deallocatedp(const request& r) { return give_only(r, &followed().freed); }

int handle_cache_flush(const request& r) {
  if (const int refused = refuse_values(r)) return refused;
  flush();
  return 0;
}

// As many as the flags of mallocx have room for (12 bits, less the two values for "the thread's" and "none").
constexpr unsigned most_caches = 4094;

// The numbers go round: two caches with the same number are the same, as all are.
int handle_create(const request& r) {
  static constinit std::atomic<unsigned> made{0};  // relaxed: a number carries no data
  if (const int refused = refuse_write(r)) return refused;
  if (const int wrong = require_room<unsigned>(r)) return wrong;
  return give(r, made.fetch_add(1, std::memory_order_relaxed) % most_caches);
}

int handle_destroy(const request& r) {
  unsigned number = 0;
  if (const int refused = refuse_read(r)) return refused;
  if (const int wrong = require(r, number)) return wrong;
  return number < most_caches ? 0 : EFAULT;
}

constexpr node cache_nodes[] = {leaf("flush", handle_cache_flush)};
constexpr node_list cache_names = list_of(cache_nodes);

constexpr node nodes[] = {
    leaf("allocated", handle_allocated),
    leaf("allocatedp", handle_allocatedp),
    leaf("deallocated", handle_deallocated),
    leaf("deallocatedp", handle_deallocatedp),
    inner("tcache", cache_names),
};
constexpr node explicit_nodes[] = {leaf("create", handle_create), leaf("destroy", handle_destroy)};

}  // namespace

constexpr node_list thread_names = list_of(nodes);
constexpr node_list tcache_names = list_of(explicit_nodes);

}  // namespace tarn::jemalloc
