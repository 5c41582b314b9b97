// SPDX-License-Identifier: MIT
// The functions of buffer pools in tarn/pool.h, and their messages about misuse.
#include "tarn/pool.h"

#include <atomic>
#include <cerrno>
#include <string_view>

#include "base/known_part.hpp"
#include "engine/engine.hpp"
#include "fronts/buffers/buffer_registry.hpp"
#include "os/errno_keeper.hpp"
#include "os/report.hpp"

using namespace tarn;

namespace {

constinit std::atomic<tarn_buffer_pool*> shared_pool{nullptr};

constexpr std::string_view shared_name = "buffers of the process";

int error_of(buffer_failure failure) {
  switch (failure) {
    case buffer_failure::not_lockable: return EPERM;
    case buffer_failure::over_budget: return EDQUOT;
    case buffer_failure::none:
    case buffer_failure::no_memory: break;
  }
  return ENOMEM;
}

// The span of a live buffer that begins at the address; null: none does.
TARN_ALWAYS_INLINE span* live_buffer_at(const void* address) {
  span* const s = engine::map.span_of(address_of(address));
  const bool is_live = s != nullptr && s->start == address_of(address) &&
                       s->state.load(std::memory_order_relaxed) == span_state::buffer;
  return is_live ? s : nullptr;
}
buffer_core* owner_of(const span* s) {
  return static_cast<buffer_core*>(s->owner.load(std::memory_order_relaxed));
}

// Ends the process with a message. `s`: the span that the page map has for the address, or null.
[[noreturn]] void misused(const void* buffer, const span* s) {
  const span_state state = s != nullptr ? s->state.load(std::memory_order_relaxed) : span_state::free;
  const auto* const owner = s != nullptr ? owner_of(s) : nullptr;
  if (owner != nullptr && s->contains(address_of(buffer))) {
    if (state == span_state::buffer)
      os::fatal_at(buffer, "give-back of a pointer into a buffer of the pool ", owner->name(),
                   ", not to its start");
    if (state == span_state::kept && s->start == address_of(buffer))
      os::fatal_at(buffer, "double give-back of a buffer of the pool ", owner->name());
  }
  os::fatal_at(buffer, "give-back of a pointer that is not a buffer, or not any more");
}

}  // namespace

tarn_buffer_pool* tarn_buffer_pool_create(const tarn_buffer_options* options) noexcept {
  const tarn_buffer_options all = known_options<tarn_buffer_options>(options, TARN_BUFFER_OPTIONS);
  if (!buffer_core::is_valid(all)) {
    errno = EINVAL;
    return nullptr;
  }
  tarn_buffer_pool* const pool = buffer_registry::create(all);
  if (pool == nullptr) errno = ENOMEM;
  return pool;
}

tarn_buffer_pool* tarn_buffer_pool_shared() noexcept {
  // acquire: partner of the release by compare_exchange_strong() below; the pool is complete.
  tarn_buffer_pool* pool = shared_pool.load(std::memory_order_acquire);
  if (pool != nullptr) return pool;
  tarn_buffer_options options = TARN_BUFFER_OPTIONS;
  options.name = shared_name.data();
  options.name_length = shared_name.size();
  pool = tarn_buffer_pool_create(&options);
  if (pool == nullptr) return nullptr;
  tarn_buffer_pool* first = nullptr;
  if (shared_pool.compare_exchange_strong(first, pool, std::memory_order_acq_rel)) return pool;
  pool->end();
  return first;
}

void tarn_buffer_pool_destroy(tarn_buffer_pool* pool) noexcept {
  const os::errno_keeper keeper;
  pool->end();
}

void* tarn_buffer_get(tarn_buffer_pool* pool, std::size_t bytes, std::size_t* capacity) noexcept {
  buffer_failure failure = buffer_failure::none;
  const span* const s = pool->get(bytes, capacity, failure);
  if (s != nullptr) return reinterpret_cast<void*>(s->start);
  errno = error_of(failure);
  return nullptr;
}

void tarn_buffer_give_back(tarn_buffer_pool* pool, void* buffer) noexcept {
  const os::errno_keeper keeper;
  span* const s = live_buffer_at(buffer);
  if (s == nullptr) misused(buffer, engine::map.span_of(address_of(buffer)));
  span_state expected = span_state::buffer;
  buffer_core* const owner = owner_of(s);
  if (pool != nullptr && pool != owner && pool->is_checked()) {
    os::fatal_at(buffer, "give-back to the pool ", pool->name(), ", of a buffer of the pool ", owner->name());
  }
  // Of two threads that give the same buffer back, one changes the state; the other ends the process.
  if (!s->state.compare_exchange_strong(expected, span_state::kept, std::memory_order_relaxed)) {
    misused(buffer, s);
  }
  owner->take_back(s);
}

tarn_buffer_pool* tarn_buffer_pool_of(const void* address, std::size_t* capacity) noexcept {
  const span* const s = live_buffer_at(address);
  if (s == nullptr) return nullptr;
  buffer_core* const owner = owner_of(s);
  *capacity = owner->usable_bytes(s);
  return static_cast<tarn_buffer_pool*>(owner);
}

int tarn_buffer_reserve(tarn_buffer_pool* pool, std::size_t bytes, std::size_t count) noexcept {
  const buffer_failure failure = pool->reserve(bytes, count);
  if (failure != buffer_failure::none) errno = error_of(failure);
  return failure == buffer_failure::none ? 1 : 0;
}

std::size_t tarn_buffer_trim(tarn_buffer_pool* pool) noexcept {
  const os::errno_keeper keeper;
  return pool->trim();
}

void tarn_buffer_get_stats(const tarn_buffer_pool* pool, tarn_buffer_stats* out, std::size_t size) noexcept {
  tarn_buffer_stats all{};
  if (!const_cast<tarn_buffer_pool*>(pool)->figures(all, nullptr)) all = {};
  put_known(all, out, size);
}

void tarn_buffer_visit(void (*visit)(void* context, const char* name, const tarn_buffer_stats* figures),
                       void* context) noexcept {
  buffer_registry::for_each([visit, context](buffer_core& pool) {
    tarn_buffer_stats figures{};
    char name[buffer_core::longest_name + 1];
    if (pool.figures(figures, name)) visit(context, name, &figures);
  });
}

// ---- metrics ----

namespace tarn::buffer_registry {
namespace {

using enum metric_kind;
using enum metric_unit;
using figures = tarn_buffer_stats;

constexpr metric_of<figures> rows[] = {
    {"tarn_buffer_pool_live_buffers", gauge, none, "Buffers in the hands of the program", &figures::live},
    {"tarn_buffer_pool_live_bytes", gauge, bytes, "Memory of these", &figures::live_bytes},
    {"tarn_buffer_pool_kept_buffers", gauge, none, "Idle buffers", &figures::kept},
    {"tarn_buffer_pool_kept_bytes", gauge, bytes, "Memory of these", &figures::kept_bytes},
    {"tarn_buffer_pool_budget_bytes", gauge, bytes, "Most memory of idle buffers now", &figures::limit},
    {"tarn_buffer_pool_gets", counter, none, "Buffers handed out", &figures::gets},
    {"tarn_buffer_pool_misses", counter, none, "Buffers for which memory had to be found", &figures::misses},
    {"tarn_buffer_pool_given_back_bytes", counter, bytes, "Memory of idle buffers given back to the system",
     &figures::given_back},
};

}  // namespace

constinit const metric_group metrics = metric_table<rows>::group_of<tarn_buffer_visit>("buffer_pool");

}  // namespace tarn::buffer_registry
