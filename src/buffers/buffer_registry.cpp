// SPDX-License-Identifier: MIT
#include "buffers/buffer_registry.hpp"

#include <new>

#include "os/clock.hpp"
#include "runtime/engine.hpp"
#include "runtime/extension.hpp"

namespace tarn {
namespace buffer_registry {

constinit buffer_budget budget;

namespace {

constinit os::mutex lock{os::lock_rank::pools};
std::atomic<buffer_core*> pools{nullptr};  // written under lock

// ---- what the engine asks for ----

void age() {
  const std::int64_t now = os::now_ms();
  budget.refresh(now);
  for_each([now](buffer_core& pool) { pool.age(now); });
}

bool has_work() {
  bool work = false;
  for_each([&work](buffer_core& pool) { work = work || pool.has_work(); });
  return work;
}

void reclaim() {
  for_each([](buffer_core& pool) { pool.give_to_heap(false); });
}

void walk_upper_locks(const os::lock_walk& walk) {
  walk.list(lock, [&walk] { for_each([&walk](buffer_core& pool) { walk.visit(pool.lock()); }); });
}

void after_fork_in_child() {
  for_each([](buffer_core& pool) { pool.after_fork_in_child(); });
}

void run_errands() {
  for_each([](buffer_core& pool) { pool.run_errands(); });
}

}  // namespace
}  // namespace buffer_registry

constinit const engine::extension engine::buffer_extension{
    .age = buffer_registry::age,
    .has_work = buffer_registry::has_work,
    .reclaim = buffer_registry::reclaim,
    .walk_upper_locks = buffer_registry::walk_upper_locks,
    .after_fork_in_child = buffer_registry::after_fork_in_child,
    .run_errands = buffer_registry::run_errands};

namespace buffer_registry {

buffer_core* first() {
  // acquire: partner of the release in create().
  return pools.load(std::memory_order_acquire);
}

tarn_buffer_pool* create(const tarn_buffer_request& request) {
  engine::attach_thread();
  engine::attach(engine::extension::buffers);
  budget.refresh(os::now_ms());
  for (buffer_core* pool = first(); pool != nullptr; pool = pool->next) {
    if (pool->claim(request)) return static_cast<tarn_buffer_pool*>(pool);
  }
  void* const memory = engine::metadata.allocate(sizeof(tarn_buffer_pool), alignof(tarn_buffer_pool));
  if (memory == nullptr) return nullptr;
  auto* const pool = new (memory) tarn_buffer_pool;
  pool->claim(request);
  os::lock_guard guard(lock);
  pool->next = pools.load(std::memory_order_relaxed);
  // release: partner of the acquire in first().
  pools.store(pool, std::memory_order_release);
  return pool;
}

}  // namespace buffer_registry
}  // namespace tarn
