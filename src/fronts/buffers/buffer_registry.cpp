// SPDX-License-Identifier: MIT
#include "fronts/buffers/buffer_registry.hpp"

#include <new>

#include "engine/engine.hpp"
#include "engine/front.hpp"
#include "os/clock.hpp"

namespace tarn {
namespace buffer_registry {

constinit buffer_group group;

namespace {

// ---- parts of buffer_front ----

void age() {
  const std::int64_t now = os::now_ms();
  group.budget.refresh(pressure::process, now);
  // Between two timed looks the heap's growth may have caused one.
  if (pressure::process.now() == pressure::level::above_soft)
    group.budget.note(pressure::process.least_limit(), pressure::level::above_soft);
  for_each([now](buffer_core& pool) { pool.age(now); });
}

bool has_work() {
  bool work = false;
  for_each([&work](buffer_core& pool) { work = work || pool.has_work(); });
  return work;
}

// The structure of a pool that has ended, now the requested pool. Null if there is none.
tarn_buffer_pool* reuse(const tarn_buffer_options& request) {
  tarn_buffer_pool* reused = nullptr;
  for_each([&](buffer_core& pool) {
    if (reused == nullptr && pool.claim(request)) reused = static_cast<tarn_buffer_pool*>(&pool);
  });
  return reused;
}

}  // namespace

tarn_buffer_pool* create(const tarn_buffer_options& request) {
  engine::attach_thread();
  engine::attach(engine::buffer_front);
  group.budget.refresh(pressure::process, os::now_ms());
  if (tarn_buffer_pool* const pool = reuse(request)) return pool;
  void* const memory = engine::metadata.allocate(sizeof(tarn_buffer_pool), alignof(tarn_buffer_pool));
  if (memory == nullptr) return nullptr;
  auto* const pool = new (memory) tarn_buffer_pool(group);
  pool->claim(request);
  group.add(*pool);
  return pool;
}

}  // namespace buffer_registry

constinit const engine::front engine::buffer_front{
    .order = engine::front::buffers,
    .age = buffer_registry::age,
    .has_work = buffer_registry::has_work,
    .reclaim = [] { buffer_registry::for_each([](buffer_core& pool) { pool.give_to_heap(false); }); },
    .walk_locks =
        [](const os::lock_walk& walk) {
          walk.list(buffer_registry::group.lock, [&walk] {
            buffer_registry::for_each([&walk](buffer_core& pool) { walk.visit(pool.lock()); });
          });
        },
    .after_fork_in_child =
        [] { buffer_registry::for_each([](buffer_core& pool) { pool.after_fork_in_child(); }); },
    .run_errands = [] { buffer_registry::for_each([](buffer_core& pool) { pool.run_errands(); }); },
    .metrics = &buffer_registry::metrics};

}  // namespace tarn
