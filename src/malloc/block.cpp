// SPDX-License-Identifier: MIT
#include "malloc/block.hpp"

#include "fronts/scopes/scope_bin.hpp"
#include "malloc/allocate.hpp"
#include "malloc/hardened_block.hpp"
#include "malloc/hardened_large.hpp"
#include "malloc/hardened_zero.hpp"
#include "malloc/large_block.hpp"
#include "os/report.hpp"

namespace tarn {

// ---- what a pointer is ----

namespace {

using kind = block_kind;

// What lies in a span of this state.
constexpr kind kind_in(span_state state) {
  switch (state) {
    case span_state::no_memory:
    case span_state::free:
    case span_state::purging:
    case span_state::kept: return kind::unused;
    case span_state::large: return kind::large;
    case span_state::cut: return kind::unlisted;
    case span_state::pooled: return kind::pooled;
    case span_state::arena: return kind::arena;
    case span_state::buffer: return kind::buffer;
    case span_state::scoped: return kind::scoped;
    case span_state::sampled: return kind::sampled;
  }
  return kind::unused;
}

// Whether the pointer would be an address of tarn without its top byte. aarch64 ignores that byte, so programs keep
// tags there; free() requires untagged pointers.
bool has_tag(std::uintptr_t address) {
  constexpr std::uintptr_t tag = std::uintptr_t{0xff} << 56;
  if ((address & tag) == 0) return false;
  const span* const s = engine::map.span_of(address & ~tag);
  return s != nullptr && s->contains(address & ~tag);
}

}  // namespace

TARN_NOINLINE pointee classify_unclassed(page_map::entry page, const void* pointer) {
  const std::uintptr_t address = address_of(pointer);
  pointee found{kind::foreign, 0, nullptr, page};
  // The entry may be stale, and its span by now another one's: so the state and the range are asked (page_map.hpp).
  span* const s = page.owner(address);
  if (s != nullptr && s->contains(address)) {
    found.kind = kind_in(s->state.load(std::memory_order_relaxed));
    found.owner = s;
    if (found.kind == kind::unlisted) found.size_class = TARN_PLAIN_LOAD(s->size_class);
    if (found.kind == kind::large && s->start != address) found.kind = kind::inner;
    if (TARN_LIKELY(found.kind != kind::unused)) return found;
  }
  // Memory that the page heap has given up may have become one of these regions.
  if (engine::guards.contains(pointer)) return {kind::guarded, 0, nullptr, page};
  if (hardened_build && hardened_zero::contains(pointer)) return {kind::empty, 0, nullptr, page};
  if (found.kind == kind::foreign && has_tag(address)) found.kind = kind::tagged;
  return found;
}

// ---- objects of classes ----

// By the class in the entry, not the span's: another thread may be dividing the span into grains at this
// time, which leave no bytes before the first object.
const char* fault_of(page_map::entry page, const void* block) {
  const auto& info = class_info(static_cast<unsigned>(page.size_class()));
  const std::size_t bytes_of_objects = std::size_t{info.objects} * info.size;
  const bool fills_span = bytes_of_objects == std::size_t{info.span_pages} << page_shift;
  if (!fills_span && address_of(block) < page.owner(address_of(block))->end() - bytes_of_objects) {
    return "invalid free of a pointer that is not a block";
  }
  if (!page.begins_object(address_of(block), info.reciprocal)) {
    return "invalid free of a pointer into a block";
  }
  if constexpr (hardened_build) return hardened_block::fault_of(page, block);
  const auto size_class = static_cast<unsigned>(page.size_class());
  return free_mark::is_set(engine::map, size_class, block) ? "double free" : nullptr;
}

const char* fault_of(pointee& found, const void* block) {
  for (;;) {
    if (found.kind == kind::object) return fault_of(found.page, block);
    if (found.kind != kind::unlisted) return nullptr;
    const idle_pages::unlisted now = engine::central_tier.idle_pages().look_up(block);
    if (!now.has_changed) {
      found.size_class = static_cast<std::uint8_t>(now.size_class);
      return now.fault;
    }
    found = classify(block);
  }
}

std::size_t usable_bytes(unsigned size_class, const void* object) {
  if (TARN_UNLIKELY(size_classes::is_grain(size_class))) {
    return engine::central_tier.grains().bytes_of(size_class, address_of(object)) - kept_bytes;
  }
  return class_info(size_class).size - kept_bytes;
}

// ---- the actions ----

namespace {

constexpr std::size_t no_block = block_actions::no_block;

TARN_ALWAYS_INLINE std::size_t usable_in_class(page_map::entry page, const void* object) {
  if (hardened_build && fault_of(page, object) != nullptr)
    os::fatal("size asked of a pointer that is no live and intact block", object);
  return usable_bytes(static_cast<unsigned>(page.size_class()), object);
}
std::size_t usable_of_object(const pointee& found, const void* block) {
  return usable_in_class(found.page, block);
}

bool free_unlisted(const pointee& first, void* block) {
  pointee found = first;
  if (const char* const fault = fault_of(found, block)) os::fatal(fault, block);
  // Its span may have been listed, or have become any other one, meanwhile.
  if (found.kind != kind::unlisted) return actions_of(found.kind).free(found, block);
  if (found.size_class == 0) return false;
  engine::uncached_traffic.freed += class_info(found.size_class).size;
  put_into_span(found.size_class, block);
  return true;
}
std::size_t usable_of_unlisted(const pointee& found, const void* block) {
  return found.size_class == 0 ? no_block : usable_bytes(found.size_class, block);
}

// Of two threads that free the same block, one gets false.
bool free_large(const pointee& found, void* /*block*/) { return large_block::deallocate(found.owner); }
std::size_t usable_of_large(const pointee& found, const void* /*block*/) {
  return hardened_build ? hardened_large::usable_bytes(found.owner) : found.owner->bytes();
}

bool free_scoped(const pointee& found, void* block) {
  span* const s = found.owner;
  scope_bin* const bin = current_scope_bin;
  // The thread's bin of the scope saves the lock.
  // The owner is read first (scope_core::owner_of()).
  if (bin != nullptr && s->size_class != 0 && bin->memory == &scope_core::owner_of(s) &&
      TARN_PLAIN_LOAD(s->list) == scope_core::cut && scope_core::is_object(s, block) &&
      !free_mark::is_set(engine::map, s->size_class, block)) {
    if constexpr (hardened_build) hardened_block::take_back_scoped(s, block);
    if (!bin->push(s->size_class, block)) scope_core::deallocate(s, block);
    return true;
  }
  // Past a bin, another thread may be ending the scope and making the block inaccessible: only the lock keeps it off.
  scope_core::deallocate(s, block, hardened_build ? hardened_block::take_back_scoped : nullptr);
  return true;
}
std::size_t usable_of_scoped(const pointee& found, const void* block) {
  const std::size_t bytes = scope_core::usable_size(found.owner, block);
  if (bytes == 0) return no_block;
  return found.owner->size_class != 0 ? bytes - kept_bytes : bytes;
}

bool free_sampled(const pointee& found, void* block) {
  const std::size_t bytes = engine::samples.deallocate(found.owner, block);
  engine::uncached_traffic.freed += bytes;
  return bytes != 0;
}
std::size_t usable_of_sampled(const pointee& found, const void* block) {
  const std::size_t bytes = engine::samples.size_of(found.owner, block);
  return bytes > kept_bytes ? bytes - kept_bytes : no_block;
}

// guarded_blocks::deallocate() ends the process itself.
bool free_guarded(const pointee& /*found*/, void* block) {
  engine::uncached_traffic.freed += class_info(engine::guards.deallocate(block)).size;
  return true;
}
std::size_t usable_of_guarded(const pointee& /*found*/, const void* block) {
  const std::size_t bytes = engine::guards.size_of(block);
  return bytes != 0 ? bytes : no_block;
}

// So does hardened_zero::deallocate().
bool free_empty(const pointee& /*found*/, void* block) {
  if constexpr (hardened_build) hardened_zero::deallocate(block);
  return true;
}
std::size_t usable_of_empty(const pointee& /*found*/, const void* block) {
  return hardened_build && hardened_zero::is_live(block) ? 0 : no_block;
}

// Of what is no block of malloc.
bool free_none(const pointee& /*found*/, void* /*block*/) { return false; }
std::size_t usable_of_none(const pointee& /*found*/, const void* /*block*/) { return no_block; }

constexpr const char* no_size = "size asked of a pointer that is not a block";
constexpr const char* no_resize = "realloc of a pointer that is not a block";
constexpr const char* not_started = "invalid free of a pointer that is not a block";
constexpr const char* into_block = "invalid free of a pointer into a block";
constexpr const char* freed_memory = "double free, or a pointer into memory that is free";
constexpr const char* of_sample = "double free, or invalid free of a pointer into a block";
constexpr const char* of_pool = "invalid free of an object of a typed pool";
constexpr const char* of_buffer = "invalid free of a buffer of a buffer pool";
constexpr const char* with_tag = "invalid free of a pointer with a tag in its top byte";
constexpr const char* of_others = "invalid free of a pointer that tarn did not allocate";

constexpr resizing if_stays = resizing::if_it_stays;
constexpr resizing if_equal = resizing::if_equal;
// The hardened build's large blocks have a guard behind them.
constexpr resizing of_large = hardened_build ? resizing::if_it_stays : resizing::by_pages;

constexpr block_actions table[] = {
    {kind::object, free_object, usable_of_object, if_stays, true, freed_memory, no_resize},
    {kind::unlisted, free_unlisted, usable_of_unlisted, if_stays, true, freed_memory, no_resize},
    {kind::large, free_large, usable_of_large, of_large, false, into_block, no_resize},
    {kind::inner, free_none, usable_of_none, if_equal, false, into_block, no_resize},
    {kind::scoped, free_scoped, usable_of_scoped, if_stays, false, freed_memory, no_resize},
    {kind::sampled, free_sampled, usable_of_sampled, if_stays, true, of_sample, no_resize},
    {kind::guarded, free_guarded, usable_of_guarded, if_equal, true, freed_memory, no_size},
    {kind::empty, free_empty, usable_of_empty, if_equal, true, freed_memory, no_resize},
    {kind::pooled, free_none, usable_of_none, if_equal, false, of_pool, no_resize},
    {kind::buffer, free_none, usable_of_none, if_equal, false, of_buffer, no_resize},
    {kind::arena, free_none, usable_of_none, if_equal, false, not_started, no_resize},
    {kind::unused, free_none, usable_of_none, if_equal, false, freed_memory, no_resize},
    {kind::tagged, free_none, usable_of_none, if_equal, false, with_tag, no_resize},
    {kind::foreign, free_none, usable_of_none, if_equal, false, of_others, no_resize},
};

constexpr bool table_is_ordered() {
  for (std::size_t i = 0; i < block_kinds; ++i)
    if (table[i].kind != static_cast<kind>(i)) return false;
  return sizeof table / sizeof table[0] == block_kinds;
}
static_assert(table_is_ordered());

}  // namespace

const block_actions& actions_of(block_kind which) { return table[static_cast<std::size_t>(which)]; }

void report_bad_free(const void* block) { os::fatal(actions_of(classify(block).kind).bad_free, block); }

std::size_t usable_size(const void* block) {
  const page_map::entry page = engine::map.find(address_of(block));
  if (TARN_LIKELY(page.size_class() != 0)) return usable_in_class(page, block);
  const pointee found = classify_unclassed(page, block);
  const std::size_t bytes = actions_of(found.kind).usable(found, block);
  if (bytes == no_block) os::fatal(no_size, block);
  return bytes;
}

}  // namespace tarn
