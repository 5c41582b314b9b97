// SPDX-License-Identifier: MIT
// live_slots: which slots of a pool hold objects at one moment, for programs that visit all objects of a pool.
//
// The free bits of a span say which slots lie free in the span. A slot in a magazine (a thread's, or one handed over)
// has no bit set, like a live one. So the bits of all slots in magazines are set, the spans' bits are copied, and the
// slots' bits are cleared again, all under the locks of the pool's shards. Fast paths do nothing for this: other
// threads' magazines are only read, while these threads do not use the pool.
//
// Thread safety: as tarn_pool_take_snapshot().
#include <time.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>

#include "engine/engine.hpp"
#include "fronts/pools/pool_registry.hpp"
#include "os/clock.hpp"
#include "os/syscall.hpp"
#include "tarn/detail/pages.hpp"
#include "tarn/detail/pool_bin.hpp"

namespace tarn {
namespace {

// How long slots that another thread is moving are awaited: decay moves them for some milliseconds at most.
constexpr std::int64_t patience_ms = 5000;
constexpr long pause_ns = 50'000;

// The snapshot and what it points to, in pages of its own:
//
//     | tarn_pool_snapshot | span_count x tarn_pool_live_span | bits of the first span | of the second ...
struct room {
  std::size_t spans = 0;
  std::size_t words = 0;

  [[nodiscard]] std::size_t bytes() const {
    return sizeof(tarn_pool_snapshot) + spans * sizeof(tarn_pool_live_span) + words * sizeof(std::uint64_t);
  }
};

// All locks of a pool under which its free slots lie still: that of the list of bins, and those of the shards.
struct all_locks {
  explicit all_locks(tarn_pool& of) TARN_NOT_ANALYZED : guard(pool_registry::pools.lock()), pool(of) {
    pool.walk_locks({[](os::mutex& m) TARN_NOT_ANALYZED { m.lock(); }});
  }
  ~all_locks() TARN_NOT_ANALYZED {
    pool.walk_locks({[](os::mutex& m) TARN_NOT_ANALYZED { m.unlock(); }});
  }
  all_locks(const all_locks&) = delete;
  all_locks& operator=(const all_locks&) = delete;

  os::lock_guard<os::mutex> guard;
  tarn_pool& pool;
};

// The functions below require all_locks.

template <class Visit>
void for_each_span(const tarn_pool& pool, Visit visit) {
  pool.for_each_shard([&visit](const pool_shard& s) TARN_NOT_ANALYZED {
    s.for_each_span_locked([&visit](const span& each) { visit(each); });
  });
}

// Calls visit(slot) for the free slots in all magazines.
template <class Visit>
void for_each_cached(const tarn_pool& pool, Visit visit) {
  for (const pool_bin* bin = pool.bins; bin != nullptr; bin = bin->next) bin->for_each_slot(visit);
  pool.for_each_shard([&visit](const pool_shard& s) TARN_NOT_ANALYZED { s.for_each_waiting_locked(visit); });
}

room needed_by(const tarn_pool& pool) {
  room needed;
  for_each_span(pool, [&needed](const span& s) {
    ++needed.spans;
    needed.words += objects::words(s.capacity);
  });
  return needed;
}

// Sets or clears the free bits of the slots in magazines. Returns a slot that is free twice, or null.
const void* mark_cached(const tarn_pool& pool, bool free) {
  const void* twice = nullptr;
  for_each_cached(pool, [&pool, &twice, free](void* slot) {
    span* const s = engine::map.span_of(address_of(slot));
    if (TARN_UNLIKELY(s == nullptr || pool_core::owner_of(slot) != &pool)) {
      twice = slot;
      return;
    }
    const std::size_t index = pool.layout().find(s, address_of(slot)).index;
    std::uint64_t& word = s->free_bits[index / objects::bits_per_word];
    if (free && (word & objects::bit_of(index)) != 0) twice = slot;
    word = free ? word | objects::bit_of(index) : word & ~objects::bit_of(index);
  });
  return twice;
}

void copy_spans(const tarn_pool& pool, tarn_pool_snapshot& snapshot, tarn_pool_live_span* record,
                std::uint64_t* word) {
  for_each_span(pool, [&](const span& s) {
    const std::size_t words = objects::words(s.capacity);
    ::new (static_cast<void*>(record))
        tarn_pool_live_span{reinterpret_cast<char*>(s.start), word, s.capacity};
    objects::set_all_free(word, s.capacity);  // all bits that a slot has
    for (std::size_t w = 0; w < words; ++w) {
      word[w] &= ~s.free_bits[w];
      snapshot.objects += static_cast<std::size_t>(std::popcount(word[w]));
    }
    ++record;
    word += words;
  });
}

enum class outcome : std::uint8_t { done, too_small, moving, free_twice };

// Fills `memory` of `bytes` bytes, or says in `needed` how many are needed.
outcome fill(tarn_pool& pool, void* memory, std::size_t bytes, room& needed, const void*& faulty) {
  const all_locks locks(pool);
  // Slots that are counted as moving lie neither in a span nor in a magazine. They are counted before they leave a
  // magazine, under one of these locks, and until they are in their spans; so from here on none begins to move.
  if (pool.has_moving_slots() || pool.has_lost_slots()) return outcome::moving;
  needed = needed_by(pool);
  if (needed.bytes() > bytes) return outcome::too_small;
  auto* const snapshot = ::new (memory) tarn_pool_snapshot{pool.layout().size, 0, needed.spans, nullptr};
  auto* const spans = reinterpret_cast<tarn_pool_live_span*>(snapshot + 1);
  snapshot->spans = spans;
  faulty = mark_cached(pool, true);
  copy_spans(pool, *snapshot, spans, reinterpret_cast<std::uint64_t*>(spans + needed.spans));
  mark_cached(pool, false);
  return faulty != nullptr ? outcome::free_twice : outcome::done;
}

void rest() {
  const timespec time{0, pause_ns};
  os::system_call(SYS_nanosleep, &time);
}

}  // namespace
}  // namespace tarn

using namespace tarn;

const tarn_pool_snapshot* tarn_pool_take_snapshot(const tarn_pool* const_pool) noexcept {
  auto& pool = *const_cast<tarn_pool*>(const_pool);
  void* memory = nullptr;
  std::size_t bytes = 0;
  int error = 0;
  const std::int64_t begin = os::now_ms();
  for (;;) {
    room needed;
    const void* faulty = nullptr;
    const outcome found = fill(pool, memory, bytes, needed, faulty);
    if (found == outcome::done) {
      error = 0;
      break;
    }
    if (found == outcome::free_twice) {
      pool.fatal("double destroy, detected when the pool's objects were listed", faulty);
    }
    if (found == outcome::moving) {
      error = pool.has_lost_slots() ? ENOTSUP : EBUSY;
      if (error == ENOTSUP || os::now_ms() - begin > patience_ms) break;
      rest();
      continue;
    }
    if (memory != nullptr) tarn_pages_give(memory);
    bytes = needed.bytes();
    memory = tarn_pages_take(&bytes);
    if (memory == nullptr) return nullptr;
  }
  if (error != 0) {
    if (memory != nullptr) tarn_pages_give(memory);
    errno = error;
    return nullptr;
  }
  auto* const snapshot = static_cast<tarn_pool_snapshot*>(memory);
  auto* const spans = reinterpret_cast<tarn_pool_live_span*>(snapshot + 1);
  std::sort(spans, spans + snapshot->span_count,
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return snapshot;
}

void tarn_pool_drop_snapshot(const tarn_pool_snapshot* snapshot) noexcept {
  tarn_pages_give(const_cast<tarn_pool_snapshot*>(snapshot));
}
