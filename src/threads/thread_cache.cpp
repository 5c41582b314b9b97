// SPDX-License-Identifier: MIT
#include "threads/thread_cache.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tarn {

namespace {

// The most objects in a magazine while its class is draining (slot_depot::draining). The second number is for a
// thread that only allocates or only frees (one_way_misses).
constexpr std::size_t most_while_draining = 2;
constexpr std::size_t most_while_draining_one_way = 60;
// After this many misses in a row that are all of malloc, or all of free, a thread counts as one that only allocates or
// only frees. Very short magazines would cost it time without a benefit. For other threads they have one: each object
// that stays in the cache of a sleeping thread can keep a whole span from being freed.
constexpr int one_way_misses = 8;
// Slow calls between two scavenges, which empty the bins not used since the last one.
constexpr std::uint32_t scavenge_interval = 2048;

}  // namespace

// ---- magazines ----

magazine* thread_cache::new_magazine(unsigned size_class) {
  const std::size_t index = magazine_store::index_for(most_[size_class]);
  if (magazine* const m = std::exchange(empty_[index], nullptr)) {
    m->count = 0;
    return m;
  }
  return central_->magazines().allocate(central_->metadata(), index);
}

// Disposes of an empty magazine of this thread: keeps it for the next swap, leaves it in the depot, or frees it.
void thread_cache::discard(unsigned size_class, magazine* m) {
  magazine*& at_hand = empty_[m->size_index];
  if (at_hand == nullptr) {
    at_hand = m;
  } else if (!central_->leave_empty(size_class, m, home)) {
    central_->magazines().deallocate(m);
  }
}

// May be called by any thread.
void thread_cache::flush_and_free(unsigned size_class, magazine* m) {
  taken_away_bytes_.fetch_add(std::uint64_t{m->count} * class_info(size_class).size,
                              std::memory_order_relaxed);
  if (m->count != 0) central_->flush(size_class, m->bottom(), m->count);
  central_->magazines().deallocate(m);
}

bool thread_cache::is_one_way(unsigned size_class) const {
  return streak_[size_class] == one_way_misses || streak_[size_class] == -one_way_misses;
}

std::size_t thread_cache::most_now(unsigned size_class) const {
  const std::size_t most = most_[size_class];
  if (TARN_LIKELY(!central_->draining(size_class, home))) return most;
  return std::min(most, is_one_way(size_class) ? most_while_draining_one_way : most_while_draining);
}

void thread_cache::note_slow_call(unsigned size_class) {
  const std::uint32_t calls = slow_calls_.load(std::memory_order_relaxed) + 1;
  slow_calls_.store(calls, std::memory_order_relaxed);
  last_top_[size_class] = nullptr;
  if (calls % scavenge_interval == 0) scavenge();
  if (calls % cache_budget::watch_interval == 0 && budget_->is_worth_watching()) central_->wake_decay();
}

// The bin of one class, for magazine_bin.
class thread_cache::class_bin : public magazine_bin<class_bin> {
 public:
  class_bin(thread_cache& cache, unsigned size_class) : cache_(cache), class_(size_class) {}

  magazine*& loaded() { return cache_.loaded_[class_]; }
  spare_magazine<magazine>& spare() { return cache_.spare_[class_]; }
  void**& top() { return cache_.bins_[class_].top; }
  void**& limit() { return cache_.bins_[class_].limit; }
  [[nodiscard]] std::size_t most() const { return cache_.most_[class_]; }
  [[nodiscard]] std::size_t most_now() const { return cache_.most_now(class_); }
  // Doubles the capacity if the budget allows; beyond one refill only at a miss of malloc, if the thread has put objects
  // back that it could have kept. (Of objects that homes share, depots keep more full magazines: central::note_taken.)
  bool raise_most() {
    const bool misses_put_back = cache_.has_put_back_[class_] && cache_.streak_[class_] < 0 &&
                                 class_info(class_).size > class_depots::largest_shared;
    const std::size_t limit = misses_put_back ? largest_magazine : most_of_refill(class_);
    return most() < limit && cache_.raise_most(class_, std::min(most() * 2, limit));
  }
  magazine* new_magazine() { return cache_.new_magazine(class_); }
  void discard(magazine* m) { cache_.discard(class_, m); }
  magazine* take_full() {
    magazine* const m = central_tier().take_full(class_, cache_.home);
    if (m == nullptr) return nullptr;
    cache_.note_brought(class_, m->count);
    // It may be longer than this thread's magazines; what the budget does not allow goes back to the spans.
    if (m->count > most() && !cache_.raise_most(class_, m->count)) {
      flush(m->bottom() + most(), m->count - most());
      m->count = static_cast<std::uint16_t>(most());
    }
    return m;
  }
  bool give_full(magazine* m, magazine*& empty) {
    const std::size_t count = m->count;  // m belongs to others after the call
    const bool given = !size_classes::is_grain(class_) && !draining() &&
                       central_tier().give_full(class_, m, cache_.home, &empty);
    if (given) cache_.note_put_back(class_, count);
    return given;
  }
  std::size_t refill(magazine* m) {
    cache_.flush_grains();
    const std::size_t most = std::min({most_now(), std::size_t{m->capacity}, most_of_refill(class_)});
    const std::size_t found = central_tier().refill(class_, m, most, cache_.home);
    cache_.note_brought(class_, found);
    return found;
  }
  void flush(void** objects, std::size_t count) {
    cache_.has_put_back_[class_] = true;
    cache_.note_put_back(class_, count);
    central_tier().flush(class_, objects, count);
  }
  [[nodiscard]] bool drains() const { return draining() && !cache_.is_one_way(class_); }

 private:
  [[nodiscard]] central& central_tier() const { return *cache_.central_; }
  [[nodiscard]] bool draining() const { return central_tier().draining(class_, cache_.home); }

  thread_cache& cache_;
  const unsigned class_;
};

// ---- samples ----

sample_kind thread_cache::pick_sample(unsigned size_class, sample_windows& guards, byte_samples& profile,
                                      bool counts) {
  class_countdown& stop = bins_[size_class].samples;
  if (TARN_LIKELY(stop.until_sample > 0)) return sample_kind::none;  // allocate_slow() counts it
  // A pop that fails because of a stop has counted down, perhaps twice for one allocation; one that finds no object has
  // not. The sign of counts that are negative anyway does not show it.
  const bool shows = !counts && stop.until_sample == stop.value();
  const bool has_counted = bins_[size_class].top[-1] != nullptr;
  const std::int32_t before = shows ? 0 : stop.value() + static_cast<std::int32_t>(has_counted);
  if (TARN_UNLIKELY(counts)) {
    grant(size_class, std::int64_t{class_countdown::counted} - before);
    stop.until_sample = class_countdown::counted;
    return sample_kind::none;
  }
  // After expire() the planned stop is `before` allocations behind this one; else it is this one.
  const bool is_early = before > 0;
  const std::int32_t profiled = next_profiled(size_class, profile, is_early);
  sample_countdown& guard = guard_places_[size_class];
  if (is_early) guard.until_sample += before;
  sample_kind kind = profiled == 0 ? sample_kind::profiled : sample_kind::none;
  if (kind == sample_kind::none && guard.is_due(guards)) kind = sample_kind::guarded;
  // The next stop: the m-th allocation after this one.
  const std::size_t mean = profile.mean();
  std::int32_t to_profiled = class_countdown::longest_step;
  if (profiled > 0) {
    to_profiled = profiled;
  } else if (mean != 0) {
    to_profiled = 1 + profile.blocks_until(mean, class_info(size_class).size);
  }
  const std::int32_t to_guarded = guard.until_sample + 1;
  const std::int32_t m =
      std::clamp(std::min(to_profiled, to_guarded), std::int32_t{1}, class_countdown::longest_step);
  if (to_guarded > 0) guard.until_sample -= m;
  stop.profiled_behind = mean != 0 ? to_profiled - m : class_countdown::no_plan;
  grant(size_class, m - before);
  // allocate_slow() counts an allocation that is not chosen. A chosen block does not come from a magazine.
  stop.until_sample = kind == sample_kind::none ? m : m - 1;
  if (kind != sample_kind::none) note_brought(size_class, 1);
  return kind;
}

// How far behind the present allocation of the class the one for the profile is; 0: it is this one; negative: not
// planned.
std::int32_t thread_cache::next_profiled(unsigned size_class, byte_samples& profile, bool is_early) {
  const std::uint32_t epoch = profile.epoch();
  if (TARN_UNLIKELY(profile_epoch_ != epoch)) {
    profile_epoch_ = epoch;
    for (bin& b : bins_) b.samples.profiled_behind = class_countdown::no_plan;
  }
  const std::size_t mean = profile.mean();
  if (mean == 0) return -1;
  const std::int32_t planned = bins_[size_class].samples.profiled_behind;
  // The distribution has no memory: a stop that came early draws anew.
  if (planned != class_countdown::no_plan && !is_early) return planned;
  return profile.blocks_until(mean, class_info(size_class).size);
}

void thread_cache::grant(unsigned size_class, std::int64_t allocations) {
  granted_bytes_ += static_cast<std::uint64_t>(allocations) * class_info(size_class).size;
}

void thread_cache::set_counting(bool counts) {
  for (unsigned c = 1; c < size_classes::all; ++c) {
    class_countdown& stop = bins_[c].samples;
    const std::int32_t until = counts ? class_countdown::counted : 0;
    grant(c, std::int64_t{until} - stop.value());
    stop = {until, class_countdown::no_plan};
  }
  for (sample_countdown& guard : guard_places_) guard = sample_countdown::unplanned();
}

thread_cache::traffic_bytes thread_cache::traffic() const {
  std::uint64_t left = 0;
  std::uint64_t cached = 0;
  for (unsigned c = 1; c < size_classes::all; ++c) {
    const std::uint64_t size = class_info(c).size;
    left += static_cast<std::uint64_t>(std::int64_t{bins_[c].samples.value()}) * size;
    const magazine* const spare = spare_[c].look();
    cached += (static_cast<std::size_t>(bins_[c].top - loaded_[c]->bottom()) - holes_[c]) * size;
    cached += spare != nullptr ? spare->count * size : 0;
  }
  const std::uint64_t allocated = granted_bytes_ - left;
  return {allocated, allocated + cached + taken_away_bytes_.load(std::memory_order_relaxed) - brought_bytes_};
}

void thread_cache::forget_traffic() {
  granted_bytes_ = brought_bytes_ = 0;
  taken_away_bytes_.store(0, std::memory_order_relaxed);
  const traffic_bytes before = traffic();
  granted_bytes_ = 0 - before.allocated;
  brought_bytes_ = before.freed - before.allocated;
}

// An object from a span, without using the magazines.
void* thread_cache::take_one(unsigned size_class) {
  --bins_[size_class].samples.until_sample;
  note_brought(size_class, 1);
  return central_->take_one(size_class, home);
}

// ---- slow paths ----

TARN_NOINLINE void* thread_cache::allocate_slow(unsigned size_class) {
  if (!enter()) return take_one(size_class);
  void* const object = allocate_entered(size_class);
  if (os::is_check_due()) validate();
  leave();
  return object;
}

void* thread_cache::allocate_entered(unsigned size_class) {
  // pop() may have read a slot that empty_while_idle() on another thread had set to null, and has restored since.
  if (void* const object = take(central_->map(), size_class)) return object;
  note_slow_call(size_class);
  if (most_[size_class] == 0 && !open(size_class)) return take_one(size_class);
  streak_[size_class] = static_cast<std::int8_t>(std::clamp(streak_[size_class] - 1, -one_way_misses, 0));
  return class_bin(*this, size_class).get_objects() ? take(central_->map(), size_class)
                                                    : take_one(size_class);
}

void thread_cache::free_uncached(unsigned size_class, void* object) {
  free_mark::set(central_->map(), size_class, object);
  note_put_back(size_class, 1);
  central_->flush(size_class, &object, 1);
  central_->release_surplus(size_class);
}

TARN_NOINLINE bool thread_cache::free_slow(unsigned size_class, page_map::entry page, void* object) {
  // Checked before any change, so that an error report shows the unchanged state.
  if (TARN_UNLIKELY(!is_live(page, size_class, object))) return false;
  if (!enter()) {
    free_uncached(size_class, object);
    return true;
  }
  const bool taken = free_entered(size_class, page, object);
  if (os::is_check_due()) validate();
  leave();
  return taken;
}

bool thread_cache::free_entered(unsigned size_class, page_map::entry page, void* object) {
  note_slow_call(size_class);
  if (most_[size_class] == 0 && !open(size_class)) {
    free_uncached(size_class, object);
    return true;
  }
  if (bins_[size_class].top == bins_[size_class].limit) {
    streak_[size_class] = static_cast<std::int8_t>(std::clamp(streak_[size_class] + 1, 0, one_way_misses));
    class_bin(*this, size_class).make_room();
  }
  central_->release_surplus(size_class);
  return push(page, object);
}

// ---- giving back ----

void thread_cache::empty_bin(unsigned size_class) {
  class_bin of_class(*this, size_class);
  magazine* const loaded = is_empty(size_class) ? nullptr : of_class.unload();
  of_class.make_void();
  for (magazine* m : {loaded, spare_[size_class].take()}) {
    if (m != nullptr) m = of_class.hand_over(m);
    if (m != nullptr) discard(size_class, m);
  }
}

// Puts the freed blocks of grains back. Called before a refill, which may need them.
void thread_cache::flush_grains() {
  for (unsigned g = size_classes::count; g < size_classes::all; ++g) {
    if (is_empty(g)) continue;
    class_bin(*this, g).empty_in_place();
    central_->release_surplus(g);
  }
}

void thread_cache::give_up_bin(unsigned size_class) {
  empty_bin(size_class);
  lower_most(size_class, 0);
  streak_[size_class] = 0;
}

// What a class uses that has not missed for an interval fits into one magazine, and into two of half the length.
void thread_cache::halve_bin(unsigned size_class) {
  lower_most(size_class, std::max(std::size_t{most_[size_class]} / 2, most_of_refill(size_class)));
  class_bin(*this, size_class).empty_in_place();
}

void thread_cache::flush_quarantine() {
  quarantine_.take_all([&](quarantined q) { free_uncached(q.size_class(), q.object()); });
}

void thread_cache::flush_all() {
  if (!enter()) return;  // another thread is emptying the loaded magazines; the rest stays
  flush_quarantine();
  for (unsigned c = 1; c < size_classes::all; ++c) {
    // Most are void, and a request that is refused over and over comes here each time.
    if (most_[c] != 0 || !is_empty(c) || spare_[c].look() != nullptr) give_up_bin(c);
  }
  for (magazine*& m : empty_) {
    if (m != nullptr) central_->magazines().deallocate(std::exchange(m, nullptr));
  }
  leave();
}

void thread_cache::scavenge() {
  central_->wake_decay();
  for (unsigned c = 1; c < size_classes::all; ++c) {
    misses_[c] = 0;
    if (most_[c] == 0) continue;
    if (last_top_[c] == bins_[c].top) {
      give_up_bin(c);
    } else if (last_top_[c] != nullptr && most_[c] > most_of_refill(c)) {
      halve_bin(c);
    }
    last_top_[c] = bins_[c].top;
    has_put_back_[c] = false;
  }
}

bool thread_cache::take_surplus(bool only_if_idle) {
  const std::uint32_t calls = slow_calls_.load(std::memory_order_relaxed);
  const std::uint32_t seen = slow_calls_seen_.exchange(calls, std::memory_order_relaxed);
  if (calls != seen) {
    surplus_taken_.store(false, std::memory_order_relaxed);
    if (only_if_idle) return true;
  }
  if (surplus_taken_.exchange(true, std::memory_order_relaxed)) return false;
  for (unsigned c = 1; c < size_classes::all; ++c) {
    if (magazine* const m = spare_[c].take()) flush_and_free(c, m);
  }
  return false;
}

// May read another thread's cache without synchronization; the result is approximate then.
__attribute__((no_sanitize("thread"))) std::size_t thread_cache::cached_bytes() const {
  std::size_t bytes = 0;
  for (unsigned c = 1; c < size_classes::all; ++c) {
    // Shared members are read in this function only: no_sanitize does not apply to functions that it calls.
    const bin& b = bins_[c];
    const magazine* const spare =
        __atomic_load_n(reinterpret_cast<magazine* const*>(&spare_[c]), __ATOMIC_RELAXED);
    // If the owner swaps magazines between the reads, the two pointers belong to different ones: bound the difference.
    const auto loaded =
        reinterpret_cast<std::uintptr_t>(b.top) - address_of(loaded_[c]->slots) - sizeof(void*);
    const std::size_t count = std::min(loaded / sizeof(void*), largest_magazine);
    const std::size_t holes = std::min<std::size_t>(count, __atomic_load_n(&holes_[c], __ATOMIC_RELAXED));
    bytes += (count - holes + (spare != nullptr ? spare->count : 0)) * size_classes::most_block_bytes(c);
  }
  return bytes;
}

}  // namespace tarn
