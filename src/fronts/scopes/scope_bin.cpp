// SPDX-License-Identifier: MIT
#include "fronts/scopes/scope_bin.hpp"

#include <algorithm>
#include <cstring>

#include "base/chain.hpp"
#include "slots/free_mark.hpp"

namespace tarn {

thread_local constinit scope_bins local_scope_bins{nullptr, 0};
thread_local constinit scope_bin* current_scope_bin = nullptr;

namespace {

// A bin holds at most so many bytes of a class, and objects: what lies in bins is charged, but of no use to others.
constexpr std::size_t most_bytes = 4 * kib;
constexpr std::size_t most_objects = 60;
constexpr std::size_t first_objects = 4;
// The longest step to the next stop: forget_sample() adds one.
constexpr std::int32_t longest_step = class_countdown::longest_step - 1;

constexpr std::size_t most_of(unsigned size_class) {
  return std::min(most_objects, most_bytes / class_info(size_class).size);
}

}  // namespace

scope_bin::scope_bin() {
  for (magazine*& m : loaded_) m = no_magazine();
  for (bin& b : bins_) b.samples.until_sample = longest_step;
}

// Makes the class's magazine one for `objects` objects. False: no memory, or the class has no magazines.
bool scope_bin::reserve(unsigned size_class, std::size_t objects) {
  objects = std::min(objects, most_of(scope_core::class_in_scope(size_class)));
  if (objects < 2) return false;
  magazine*& loaded = loaded_[size_class];
  bin& b = bins_[size_class];
  if (objects > loaded->capacity) {
    magazine* const m =
        engine::central_tier.magazines().allocate(engine::metadata, magazine_store::index_for(objects));
    if (m == nullptr) return false;
    const auto held = static_cast<std::size_t>(b.top - loaded->bottom());
    std::memcpy(m->bottom(), loaded->bottom(), held * sizeof(void*));
    if (loaded != no_magazine()) engine::central_tier.magazines().deallocate(loaded);
    loaded = m;
    b.top = m->bottom() + held;
  }
  most_[size_class] = static_cast<std::uint8_t>(objects);
  b.limit = loaded->bottom() + objects;
  return true;
}

// The distance to the next block that is followed; a long one in steps.
void scope_bin::draw(unsigned size_class, byte_samples& profile) {
  const std::size_t mean = profile.mean();
  class_countdown& stop = bins_[size_class].samples;
  const std::int32_t blocks = mean == 0 ? 0 : profile.blocks_until(mean, class_info(size_class).size);
  stop.until_sample = mean == 0 ? longest_step : std::min(blocks, longest_step);
  stop.profiled_behind = mean == 0 ? class_countdown::no_plan : blocks - stop.until_sample;
}

bool scope_bin::is_profiled(unsigned size_class, byte_samples& profile) {
  class_countdown& stop = bins_[size_class].samples;
  if (TARN_UNLIKELY(profile_epoch_ != profile.epoch())) {
    profile_epoch_ = profile.epoch();
    for (unsigned c = 1; c < size_classes::count; ++c) draw(c, profile);
  } else if (TARN_UNLIKELY(stop.until_sample != stop.value() ||
                           stop.until_sample < class_countdown::counted_below)) {
    // After expire(), or after the thread has counted its allocations. The distribution has no memory.
    draw(size_class, profile);
  }
  // A pop that finds no object does not count.
  if (TARN_LIKELY(stop.until_sample > 0)) return false;
  const bool is_due = stop.profiled_behind == 0;
  draw(size_class, profile);
  if (!is_due) forget_sample(size_class);
  return is_due;
}

void* scope_bin::allocate_slow(unsigned size_class) {
  bin& b = bins_[size_class];
  if (void* const object = take(engine::map, size_class)) return object;
  const unsigned c = scope_core::class_in_scope(size_class);
  void* object = nullptr;
  if (!reserve(size_class, std::max(first_objects, std::size_t{2} * most_[size_class]))) {
    if (memory->take_objects(c, &object, 1, this) == 0) return nullptr;
    --b.samples.until_sample;
    engine::uncached_traffic.allocated += class_info(c).size;
    free_mark::clear(engine::map, c, object);
    return object;
  }
  // Half of them, so that frees have room before they put objects back.
  const std::size_t wanted = std::max<std::size_t>(most_[size_class] / 2, 1);
  void* taken[most_objects];
  const std::size_t count = memory->take_objects(c, taken, wanted, this);
  if (count == 0) return nullptr;
  // The lowest on top. (A callback for a full budget may have put objects there meanwhile.)
  for (std::size_t i = count; i != 0; --i) {
    if (b.top == b.limit && !make_room(size_class)) {
      scope_core::put_back(taken, i);
      break;
    }
    *b.top++ = taken[i - 1];
  }
  engine::uncached_traffic.allocated += count * class_info(c).size;
  return take(engine::map, size_class);
}

// The upper half of a full magazine goes back into the spans.
bool scope_bin::make_room(unsigned size_class) {
  bin& b = bins_[size_class];
  if (most_[size_class] < most_of(size_class) &&
      reserve(size_class, std::max(first_objects, std::size_t{2} * most_[size_class])))
    return b.top != b.limit;
  if (most_[size_class] < 2) return false;
  const std::size_t leaving = most_[size_class] / 2;
  b.top -= leaving;
  engine::uncached_traffic.freed += leaving * class_info(size_class).size;
  scope_core::put_back(b.top, leaving);
  return true;
}

bool scope_bin::push(unsigned size_class, void* object) {
  bin& b = bins_[size_class];
  if (TARN_UNLIKELY(b.top == b.limit) && !make_room(size_class)) return false;
  free_mark::set(engine::map, size_class, object);
  *b.top++ = object;
  return true;
}

magazine* scope_bin::take_all() {
  magazine* all = nullptr;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    bin& b = bins_[c];
    magazine* const m = loaded_[c];
    if (m == no_magazine()) continue;
    m->count = static_cast<std::uint16_t>(b.top - m->bottom());
    chain::push(all, m);
    loaded_[c] = no_magazine();
    b.top = b.limit = no_magazine()->bottom();
    most_[c] = 0;
  }
  return all;
}

void scope_bin::put_back(magazine* all) {
  while (magazine* const m = chain::pop(all)) {
    scope_core::put_back(m->bottom(), m->count);
    engine::central_tier.magazines().deallocate(m);
  }
}

void empty_bin(scope_bin& bin) { scope_bin::put_back(bin.take_all()); }

std::size_t scope_bin::count() const {
  std::size_t objects = 0;
  for (unsigned c = 1; c < size_classes::count; ++c)
    objects += static_cast<std::size_t>(bins_[c].top - loaded_[c]->bottom());
  return objects;
}

void scope_bin::validate() const {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    const bin& b = bins_[c];
    TARN_INVARIANT("scope_bin", this, loaded_[c]->slots[0] == nullptr);
    TARN_INVARIANT("scope_bin", this, b.top >= loaded_[c]->bottom() && b.top <= b.limit);
    TARN_INVARIANT("scope_bin", this, (most_[c] != 0) == (loaded_[c] != no_magazine()));
    for (void** slot = loaded_[c]->bottom(); slot != b.top; ++slot)
      TARN_INVARIANT("scope_bin", this, hardened_build || free_mark::is_set(engine::map, c, *slot));
  }
}

}  // namespace tarn
