// SPDX-License-Identifier: MIT
// thread.*: what concerns the calling thread.
//
// thread.arena and thread.tcache.enabled are remembered, and change nothing: malloc() always takes from the heap that
// all threads share, through the thread's cache. (Calls with MALLOCX_ARENA and MALLOCX_TCACHE_NONE do what they say.)
#include <cstdint>

#include "jemalloc/arena_table.hpp"
#include "jemalloc/identity.hpp"
#include "jemalloc/tree.hpp"
#include "runtime/engine.hpp"

namespace tarn::jemalloc {
namespace {

struct thread_values {
  unsigned arena = 0;
  bool cache_enabled = true;
  // What the pointers of thread.allocatedp and thread.deallocatedp lead to.
  engine::traffic counted;
};
thread_local constinit thread_values mine;

engine::traffic& counted() {
  mine.counted = engine::traffic_of_thread();
  return mine.counted;
}

void flush() {
  if (engine::local_cache != &engine::no_cache) engine::local_cache->flush_all();
}

// From now on the thread's slow calls of malloc keep the figures up to date. The next call of each size is one: a client
// may look whether its malloc is counted here, and believes that this is another library if it sees nothing.
engine::traffic& followed() {
  engine::noted_traffic = &mine.counted;
  flush();
  return counted();
}

int handle_arena(const request& r) {
  const unsigned before = mine.arena;
  unsigned wanted = before;
  if (const int wrong = take(r, wanted)) return wrong;
  if (const int wrong = give(r, before)) return wrong;
  if (wanted >= arenas.count()) return EFAULT;
  if (!arenas.exists(wanted)) return EAGAIN;
  mine.arena = wanted;
  return 0;
}

int handle_allocated(const request& r) { return give_only(r, counted().allocated); }
int handle_deallocated(const request& r) { return give_only(r, counted().freed); }
int handle_allocatedp(const request& r) { return give_only(r, &followed().allocated); }
int handle_deallocatedp(const request& r) { return give_only(r, &followed().freed); }

int handle_cache_enabled(const request& r) {
  const bool before = mine.cache_enabled;
  if (r.fresh != nullptr) {
    if (const int wrong = take(r, mine.cache_enabled)) return wrong;
    if (!mine.cache_enabled) flush();
  }
  return give(r, before);
}

int handle_cache_flush(const request& r) {
  if (const int refused = refuse_values(r)) return refused;
  flush();
  return 0;
}

// No profiling: as jemalloc without --enable-prof.
int handle_no_profiling(const request& /*r*/) { return ENOENT; }

constexpr node cache_nodes[] = {leaf("enabled", handle_cache_enabled), leaf("flush", handle_cache_flush)};
constexpr node_list cache_names = list_of(cache_nodes);
constexpr node prof_nodes[] = {leaf("name", handle_no_profiling), leaf("active", handle_no_profiling)};
constexpr node_list prof_of_thread_names = list_of(prof_nodes);

constexpr node nodes[] = {
    leaf("arena", handle_arena),
    leaf("allocated", handle_allocated),
    leaf("allocatedp", handle_allocatedp),
    leaf("deallocated", handle_deallocated),
    leaf("deallocatedp", handle_deallocatedp),
    inner("tcache", cache_names),
    inner("prof", prof_of_thread_names),
    leaf("idle", handle_cache_flush),
};

}  // namespace

constexpr node_list thread_names = list_of(nodes);

}  // namespace tarn::jemalloc
