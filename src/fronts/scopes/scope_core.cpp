// SPDX-License-Identifier: MIT
#include "fronts/scopes/scope_core.hpp"

#include "slots/objects.hpp"

namespace tarn {

constinit scope_core process_scope{0};
constinit scope_names names_of_scopes;
constinit metadata_pool scope_regions{sizeof(scope_region), cache_line};

static_assert(objects::words(class_info(scope_core::least_class).objects) <= span::inline_words);

// ---- owners ----

void scope_core::begin(scope_name& row, const tarn_scope_options& options, scope_core& parent) {
  os::lock_guard guard(lock_, *this);
  row_ = &row;
  options_ = options;
  parent_ = &parent;
  charged_.store(0, std::memory_order_relaxed);
  peak_.store(0, std::memory_order_relaxed);
  children.store(0, std::memory_order_relaxed);
}

void scope_core::retire() {
  for (;; os::sleep_ms(1)) {
    os::lock_guard guard(lock_, *this);
    if (leaving_ != 0) continue;
    forget_idle();
    options_ = {};
    parent_ = nullptr;
    row_ = nullptr;
    return;
  }
}

// ---- figures and checks ----

arena_bytes scope_core::bytes() {
  os::lock_guard guard(lock_, *this);
  return {small_bytes_, large_bytes_, own_bytes_};
}

void scope_core::validate_locked() const {
  std::size_t own = 0;
  std::size_t empty = 0;
  std::size_t small = 0;
  std::size_t in_lists = 0;
  std::size_t listed = 0;
  for (const scope_region* region = regions_; region != nullptr; region = region->next) {
    TARN_INVARIANT("scope_core", this, region->owner.load(std::memory_order_relaxed) == this);
    std::size_t used = 0;
    for_each_span(region, [&](const span* s) {
      used += s->pages;
      own += s->list != clean ? s->bytes() : 0;
      empty += s->list == dirty ? s->bytes() : 0;
      // A span that add_span() is cutting is still `large`.
      if (s->list != large && is_cut(s)) {
        objects::validate(s);
        small += static_cast<std::size_t>(s->capacity - s->free_objects) * class_info(s->size_class).size;
      }
      const bool has_list =
          s->list == dirty || s->list == clean || (s->list == cut && is_cut(s) && s->free_objects != 0);
      listed += static_cast<std::size_t>(has_list);
    });
    TARN_INVARIANT("scope_core", this, region->used == used);
  }
  const auto count = [&](const span_list& list) {
    list.validate();
    for (const span* s = list.front(); s != nullptr; s = s->next) ++in_lists;
  };
  for (const span_list& room : room_) count(room);
  count(dirty_);
  count(clean_);
  TARN_INVARIANT("scope_core", this, own_bytes_ == own);
  TARN_INVARIANT("scope_core", this, dirty_bytes_ == empty);
  TARN_INVARIANT("scope_core", this, small_bytes_ == small);
  TARN_INVARIANT("scope_core", this, in_lists == listed);
  TARN_INVARIANT("scope_core", this, own_bytes_ + leaving_bytes_ <= charged());
}

}  // namespace tarn
