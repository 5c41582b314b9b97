// SPDX-License-Identifier: MIT
#include "fronts/pools/pool_core.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "background/decay.hpp"
#include "background/reclaim.hpp"
#include "base/chain.hpp"
#include "base/fence.hpp"
#include "base/hardened.hpp"
#include "engine/engine.hpp"
#include "fronts/pools/hardened_type_spans.hpp"
#include "fronts/pools/pool_magazine.hpp"
#include "os/memory.hpp"
#include "os/memory_marks.hpp"
#include "os/node.hpp"
#include "os/own_threads/thread.hpp"
#include "os/report.hpp"

namespace tarn {
namespace {

// The most bytes of slots that one shard may keep in full magazines. Slots from magazines are reused in the order in
// which they were freed; slots from spans in the order of their addresses, which costs some ns each. The order of
// addresses pays where several objects share a cache line, and in pools larger than the processor's caches: these get
// the lower limit. (Figures: docs/design/0006.)
constexpr std::size_t ordered_handover_limit = 512 * kib;
constexpr std::size_t handover_limit = 16 * mib;

// Tunable. From this size on a pool counts as larger than the caches, until it shrinks to half of it: half of the
// last-level cache, which is shared with other cores and other virtual machines, within bounds.
constexpr std::size_t least_ordered_from = 4 * mib;
constexpr std::size_t most_ordered_from = 16 * mib;
std::size_t ordered_from() {
  return std::clamp(os::last_level_cache_bytes() / 2, least_ordered_from, most_ordered_from);
}

// Pools in a heap with less than this in use do not wake decay: little would go back, and a thread that starts takes
// longer than some thousand allocations.
constexpr std::size_t least_heap_to_wake = mib;

// The most bytes of empty spans that decay leaves in a shard while the pool is in use.
constexpr std::size_t aged_spare_limit = 64 * kib;
// A shard takes several fresh spans at once: this part of the pool's bytes per shard, and at most most_in_batch bytes.
// They are not touched before they are needed.
constexpr std::size_t span_batch_divisor = 4;
constexpr std::size_t most_in_batch = mib;

}  // namespace

pool_core::pool_core(const tarn_pool_options& request, const char* name)
    : pool_shared(slot_layout(request.object_size, request.alignment, request.magazine_length), name,
                  request.huge_pages),
      owner(request.owner),
      objects_per_span_(std::max<std::size_t>(request.objects_per_span, 1)),
      limit_(request.limit),
      checked_(request.checked != 0),
      single_(request.single_thread != 0),
      // A checked pool has one shard, whose lock guards all its books.
      shard_limit_(request.single_thread || request.checked
                       ? 1
                       : (request.shards != 0 ? request.shards : standard_shards)) {
  if (os::is_check_due()) layout_.validate();
  set_ordered(false);
}

void pool_core::set_ordered(bool beyond_caches) {
  const bool ordered = beyond_caches || layout_.size < cache_line;
  const std::size_t limit = ordered ? ordered_handover_limit : handover_limit;
  most_waiting_.store(
      static_cast<unsigned>(std::max<std::size_t>(limit / (layout_.size * most_in_magazine()), 2)),
      std::memory_order_relaxed);
  beyond_caches_.store(beyond_caches, std::memory_order_relaxed);
}

void pool_core::review_size() {
  const bool before = beyond_caches_.load(std::memory_order_relaxed);
  if (TARN_LIKELY(!before && bytes() < least_ordered_from)) return;
  if (TARN_UNLIKELY(before ? bytes() < ordered_from() / 2 : bytes() >= ordered_from())) set_ordered(!before);
}

tarn_pool* pool_core::owner_of(const void* address) {
  const pool_shard* const shard = pool_shard::owner_of(address);
  return shard != nullptr ? static_cast<tarn_pool*>(&shard->pool()) : nullptr;
}

pool_shard& pool_core::assign_shard_locked(unsigned node) {
  const unsigned count = shard_count_.load(std::memory_order_relaxed);
  const auto cost = [node](const pool_shard& s) {
    return os::place_cost(s.bins.load(std::memory_order_relaxed), s.node, node);
  };
  pool_shard* best = shards_[0];
  for (unsigned i = 1; i < count; ++i) {
    if (cost(*shards_[i]) < cost(*best)) best = shards_[i];
  }
  if (best->bins != 0 && count < shard_limit_) {
    if (void* const memory = engine::blocks.allocate(sizeof(pool_shard))) {
      best = shards_[count] = new (memory) pool_shard(*this, count);
      // release: partner of the acquire in for_each_shard().
      shard_count_.store(count + 1, std::memory_order_release);
    }
  }
  if (best->bins == 0) best->node = static_cast<std::uint8_t>(node);
  ++best->bins;
  return *best;
}

void pool_shared::fatal(const char* what, const void* pointer) const {
  os::fatal_at(pointer, what, ", in the pool of ", shown_name());
}

// ---- spans ----

std::size_t pool_core::bits_bytes(const span* s) const {
  return (checked_ ? checked_books : 1) * book_words(s) * sizeof(std::uint64_t);
}

span* pool_core::new_span() {
  std::size_t before = bytes();
  std::size_t pages = 0;
  // The bytes are added before the span exists, so that threads that grow the pool at once do not exceed its limit.
  do {
    pages = layout_.span_pages(before, objects_per_span_, huge_);
    if (limit_ != 0) {
      const std::size_t left = limit_ - std::min(before, limit_);
      pages = std::min(pages, left >> page_shift);
      if (pages << page_shift < layout_.size) return nullptr;
    }
  } while (!bytes_.compare_exchange_weak(before, before + (pages << page_shift), std::memory_order_relaxed));
  if constexpr (hardened_build) {
    const std::size_t most = limit_ != 0 ? pages : ~std::size_t{0};
    if (span* const s = hardened_type_spans::take({name_, layout_, huge_}, most)) {
      bytes_.fetch_add(s->bytes() - (pages << page_shift), std::memory_order_relaxed);
      review_size();
      return s;
    }
  }
  const std::size_t alignment =
      std::max<std::size_t>({huge_ ? pages_per_huge_page : 1, layout_.alignment >> page_shift, 1});
  span* const s = engine::take_or_reclaim([=] {
    return engine::central_tier.take_pages(pages, alignment, span_state::pooled, page_heap::use::dense);
  });
  if (s == nullptr) bytes_.fetch_sub(pages << page_shift, std::memory_order_relaxed);
  review_size();
  return s;
}

std::size_t pool_core::add_span(pool_shard& to) {
  span* const s = new_span();
  if (s == nullptr) return 0;
  memory_marks::register_leak_root(reinterpret_cast<void*>(s->start), s->bytes());
  memory_marks::poison(reinterpret_cast<void*>(s->start), s->bytes());
  s->free_bits = s->inline_bits;
  const std::size_t bits = bits_bytes(s);
  if (bits > sizeof s->inline_bits) {
    s->free_bits = static_cast<std::uint64_t*>(engine::blocks.allocate(bits));
    if (s->free_bits == nullptr) {
      destroy_span(s, page_backing::young);
      return 0;
    }
  }
  std::memset(s->free_bits, 0, bits);
  s->capacity = s->free_objects = s->free_when_looked = 0;
  s->list = slot_spans::no_list;
  engine::map.map_pages(s);
  if (huge_) os::advise_huge(reinterpret_cast<void*>(s->start), s->bytes());
  const std::size_t slots = slots_in(s);
  to.add_span(s);
  return slots;
}

// Adds several spans at once as the pool grows, most often adjacent ones. If spans of many threads alternate, each
// thread's objects lie on more page tables, and use only a part of the TLB's sets. A large pool lies on huge pages,
// where that does not matter, and where untouched spans would be backed with memory; it adds one span at a time.
bool pool_core::add_spans(pool_shard& to) {
  const std::size_t more = beyond_caches_.load(std::memory_order_relaxed)
                               ? 0
                               : bytes() / shard_count_.load(std::memory_order_relaxed) / span_batch_divisor;
  std::size_t added = 0;
  do {
    const std::size_t before = bytes();
    if (add_span(to) == 0) break;
    added += std::max<std::size_t>(bytes() - std::min(before, bytes()), page_size);
  } while (added < std::min(more, most_in_batch));
  return added != 0;
}

// Requires: the span is in no list, and no slot of it is in use.
void pool_core::destroy_span(span* s, page_backing backing) {
  memory_marks::unregister_leak_root(reinterpret_cast<void*>(s->start), s->bytes());
  memory_marks::unpoison(reinterpret_cast<void*>(s->start), s->bytes());
  bytes_.fetch_sub(s->bytes(), std::memory_order_relaxed);
  review_size();
  void* const apart = s->free_bits != s->inline_bits ? s->free_bits : nullptr;
  const std::size_t bits = bits_bytes(s);
  s->owner.store(nullptr, std::memory_order_relaxed);
  if (!hardened_build || !hardened_type_spans::keep({name_, layout_, huge_}, s))
    engine::heap.deallocate(s, backing);
  if (apart != nullptr) engine::blocks.deallocate(apart, bits);
}

bool pool_core::reserve(std::size_t slots) {
  // Refuses more than the machine's memory: the system may grant that much address space, and each span of it would
  // take metadata.
  if (slots > os::machine_bytes() / layout_.size) return false;
  std::size_t ready = sum([](pool_shard& s) { return s.ready(); });
  while (ready < slots) {
    // The first shard's spans serve all shards: see take_reserved().
    const std::size_t added = add_span(first_shard());
    if (added == 0) return false;
    ready += added;
  }
  return true;
}

// ---- slots ----

std::size_t pool_core::refill(pool_shard& own, magazine* m, std::size_t most) {
  refills_.fetch_add(1, std::memory_order_relaxed);
  using source = pool_shard::source;
  std::size_t found = own.take(m, most, source::used);
  if (found == 0 && take_spared(own)) found = own.take(m, most, source::used);
  while (found == 0) {
    found = own.take(m, most, source::fresh);
    if (found != 0 || take_reserved(own) || add_spans(own)) continue;
    found = take_anywhere(m, most);
    break;
  }
  m->close_gap(most, found);
  return found;
}

// Moves whole spans, never single slots of a span that another thread is carving: two threads would then write to the
// slots of one span, and each free would mix them further.
bool pool_core::take_reserved(pool_shard& own) {
  if (&own == shards_[0]) return false;
  span* const s = shards_[0]->take_fresh_span();
  if (s != nullptr) own.add_span(s);
  return s != nullptr;
}

std::size_t pool_core::take_anywhere(magazine* m, std::size_t most) {
  std::size_t found = 0;
  for (const bool gathered : {false, true}) {
    if (gathered) {
      gather_spare_slots(*this);
      for_each_shard([this](pool_shard& s) { put_back_waiting(s, true); });
    }
    for (const auto from : {pool_shard::source::used, pool_shard::source::fresh}) {
      for_each_shard([&](pool_shard& s) {
        if (found == 0) found = s.take(m, most, from);
      });
    }
    if (found != 0) break;
  }
  return found;
}

// In parts, as the arrays lie on the stack, which may be a coroutine's.
void pool_core::flush(void* const* freed, std::size_t count) {
  for (std::size_t part = 0; count != 0; freed += part, count -= part) {
    part = std::min(count, flushed_at_once);
    flush_part(freed, part);
  }
}

void pool_core::flush_part(void* const* freed, std::size_t count) {
  // Spans of objects that were freed in random order are rarely in the cache: prefetches all before the first is
  // needed.
  span* owners[flushed_at_once];
  for (std::size_t i = 0; i < count; ++i) {
    span* const s = engine::map.span_of(address_of(freed[i]));
    if (TARN_UNLIKELY(s == nullptr)) fatal("destroy of a pointer that is not one of its objects", freed[i]);
    __builtin_prefetch(s, 1);
    owners[i] = s;
  }
  // Usually all slots belong to one shard; those of other shards are left over for the next round.
  void* others[flushed_at_once];
  while (count != 0) {
    pool_shard* const shard = pool_shard::owner_of(freed[0]);
    if (TARN_UNLIKELY(shard == nullptr || &shard->pool() != this)) {
      fatal("destroy of a pointer that is not one of its objects", freed[0]);
    }
    bool drains = false;
    count = shard->put(freed, owners, count, others, drains);
    // The shard has begun to drain: full magazines go back, because a single slot in one may keep a whole span in use.
    if (TARN_UNLIKELY(drains)) put_back_waiting(*shard, true);
    freed = others;
  }
}

void pool_core::put_back(magazine* all) {
  while (magazine* const m = chain::pop(all)) put_back_one(m);
}

void pool_core::put_back_one(magazine* m) {
  if (m->count != 0) flush(m->bottom(), m->count);
  moving_.fetch_sub(m->count, std::memory_order_relaxed);
  pool_magazine::deallocate(m);
}

void pool_core::put_back_waiting(pool_shard& s, bool all) {
  for (std::uint32_t left = s.end_period_of_full(all); left != 0; --left) {
    magazine* const m = s.take_to_put_back();
    if (m == nullptr) return;
    put_back_one(m);
  }
}

bool pool_core::take_spared(pool_shard& own) {
  bool moved = false;
  for_each_shard([&](pool_shard& other) {
    while (!moved && &other != &own && other.can_spare()) {
      moved = other.has_free() && other.move_span_to(own);
      if (moved) break;
      // Puts the slots of a full magazine back into their spans, so that they move with these to the other shard.
      magazine* const m = other.take_full();
      if (m == nullptr) break;
      if (m->count != 0) flush(m->bottom(), m->count);
      other.leave_empty(m);
    }
  });
  return moved;
}

bool pool_core::give_full(magazine* m, magazine*& empty) {
  pool_shard* const shard = pool_shard::owner_of(m->bottom()[0]);
  return shard != nullptr && shard->give_full(m, empty);
}

// ---- giving back ----

void pool_core::release_empty_spans(std::size_t keep, page_backing backing) {
  for_each_shard([this, keep, backing](pool_shard& shard) {
    while (span* const s = shard.take_empty_span(keep)) destroy_span(s, backing);
  });
}

void pool_core::release_surplus() {
  if (TARN_UNLIKELY(has_surplus_.load(std::memory_order_relaxed))) {
    has_surplus_.store(false, std::memory_order_relaxed);
    release_empty_spans(spare_limit, page_backing::young);
  }
  if (!touched_.load(std::memory_order_relaxed)) touched_.store(true, std::memory_order_relaxed);
  if (engine::heap.in_use_bytes() < least_heap_to_wake) return;
  // Partner: the one in leave_thread(). Either we see that the thread leaves, or it sees that the pool is in use.
  full_fence();
  if (TARN_UNLIKELY(!os::background_thread_runs())) decay::wake();
}

void pool_core::age() {
  const bool in_use = touched_.exchange(false, std::memory_order_relaxed);
  for_each_shard([this](pool_shard& s) {
    put_back_waiting(s, false);
    s.end_idle_empties(false, pool_magazine::deallocate);
  });
  // The empty spans of an idle pool have been idle for a period, so the page heap need not wait for another one.
  release_empty_spans(in_use ? aged_spare_limit : 0, in_use ? page_backing::young : page_backing::old);
  if (in_use) {
    idle_periods_ = 0;
  } else if (idle_periods_ < periods_to_purge && ++idle_periods_ == periods_to_purge) {
    // By now all full magazines have gone back into spans. A slot in the bin of a sleeping thread keeps only its own
    // pages backed, not its whole span.
    purge_idle_pages();
  }
  if (os::is_check_due()) validate();
}

void pool_core::purge_idle_pages() {
  // The pattern in a checked pool's free slots must stay.
  if (checked_) return;
  for_each_shard([](pool_shard& s) { s.purge_idle_pages(); });
}

void pool_core::trim() {
  for_each_shard([this](pool_shard& s) {
    put_back_waiting(s, true);
    s.end_idle_empties(true, pool_magazine::deallocate);
  });
  release_empty_spans(0, page_backing::young);
  purge_idle_pages();
}

std::size_t pool_core::release_everything() {
  const std::size_t before = bytes();
  for_each_shard([this](pool_shard& shard) {
    while (span* const s = shard.take_any_span()) destroy_span(s, page_backing::young);
  });
  return before;
}

void pool_core::free_shards() {
  for_each_shard([this](pool_shard& s) {
    if (&s != &first_shard_) engine::blocks.deallocate(&s, sizeof(pool_shard));
  });
}

// ---- figures ----

std::size_t pool_core::sum(std::size_t (*of)(pool_shard&)) const {
  std::size_t slots = 0;
  for_each_shard([&slots, of](pool_shard& s) { slots += of(s); });
  return slots;
}

std::size_t pool_core::waiting() const {
  return sum([](pool_shard& s) { return s.waiting(); }) + moving_.load(std::memory_order_relaxed);
}

void pool_core::walk_locks(const os::lock_walk& walk) {
  for_each_shard([&walk](pool_shard& s) { walk.visit(s.lock); });
}

}  // namespace tarn
