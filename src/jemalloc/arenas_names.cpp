// SPDX-License-Identifier: MIT
// arenas.*: what all arenas have in common: page, size classes, times of decay; and making an arena.
#include "jemalloc/arena_table.hpp"
#include "jemalloc/identity.hpp"
#include "jemalloc/settings.hpp"
#include "jemalloc/tree.hpp"
#include "runtime/engine.hpp"

namespace tarn::jemalloc {
namespace {

constexpr std::size_t place_of_size = 2;

int handle_count(const request& r) { return give_only(r, arenas.count()); }

template <std::ptrdiff_t (*Get)(), bool (*Set)(std::ptrdiff_t)>
int handle_decay_ms(const request& r) {
  if (const int wrong = give(r, Get())) return wrong;
  std::ptrdiff_t wanted = 0;
  if (r.fresh == nullptr) return 0;
  if (const int wrong = take(r, wanted)) return wrong;
  return Set(wanted) ? 0 : EFAULT;
}

// Hooks for an arena's pages are not supported: all arenas share one heap of pages.
int handle_create(const request& r) {
  if (const int wrong = require_room<unsigned>(r)) return wrong;
  const void* hooks = nullptr;
  if (const int wrong = take(r, hooks)) return wrong;
  if (hooks != nullptr) return EFAULT;
  unsigned index = 0;
  const int failed = arenas.create(index);
  return failed != 0 ? failed : give(r, index);
}

// Whether an address is in memory that malloc or an arena handed out, and in which arena's.
bool arena_of(const void* address, unsigned& index) {
  index = 0;
  if (const span* const made = program_arena::span_of(address)) {
    index = program_arena::owner_of(made).index;
    return true;
  }
  const span* const s = engine::map.span_of(address_of(address));
  if (s != nullptr && s->contains(address_of(address))) {
    const span_state state = s->state.load(std::memory_order_relaxed);
    return state == span_state::cut || state == span_state::large || state == span_state::sampled;
  }
  return engine::guards.contains(address) && engine::guards.size_of(address) != 0;
}

int handle_lookup(const request& r) {
  const void* address = nullptr;
  if (const int wrong = take(r, address)) return wrong;
  unsigned index = 0;
  return arena_of(address, index) ? give(r, index) : EINVAL;
}

template <auto Value>
int handle_constant(const request& r) {
  return give_only(r, Value);
}

const size_classes::info& info_of(const request& r) { return class_info(class_of_bin(r.mib[place_of_size])); }

int handle_bin_size(const request& r) { return give_only(r, std::size_t{info_of(r).size}); }
int handle_bin_regions(const request& r) { return give_only(r, std::uint32_t{info_of(r).objects}); }
int handle_bin_slab(const request& r) { return give_only(r, span_bytes(class_of_bin(r.mib[place_of_size]))); }
int handle_large_size(const request& r) {
  return give_only(r, large_size(static_cast<unsigned>(r.mib[place_of_size])));
}

constexpr node bin_nodes[] = {leaf("size", handle_bin_size), leaf("nregs", handle_bin_regions),
                              leaf("slab_size", handle_bin_slab),
                              leaf("nshards", handle_constant<std::uint32_t{1}>)};
constexpr node_list bin_names = list_of(bin_nodes);
constexpr node bin_index[] = {inner("", bin_names)};
constexpr node_list bin_indices = list_of(bin_index);

constexpr node large_nodes[] = {leaf("size", handle_large_size)};
constexpr node_list large_names = list_of(large_nodes);
constexpr node large_index[] = {inner("", large_names)};
constexpr node_list large_indices = list_of(large_index);

constexpr node nodes[] = {
    leaf("narenas", handle_count),
    leaf("dirty_decay_ms", handle_decay_ms<decay_ms, set_decay_ms>),
    leaf("muzzy_decay_ms", handle_decay_ms<muzzy_decay_ms, set_muzzy_decay_ms>),
    leaf("quantum", handle_constant<std::size_t{16}>),
    leaf("page", handle_constant<page_size>),
    leaf("tcache_max", handle_constant<largest_class_size>),
    leaf("nbins", handle_constant<bin_count>),
    leaf("nhbins", handle_constant<bin_count>),
    indexed("bin", bin_indices, [](std::size_t i) { return i < bin_count; }),
    leaf("nlextents", handle_constant<large_count>),
    indexed("lextent", large_indices, [](std::size_t i) { return i < large_count; }),
    leaf("create", handle_create),
    leaf("lookup", handle_lookup),
};

}  // namespace

constexpr node_list arenas_names = list_of(nodes);

}  // namespace tarn::jemalloc
