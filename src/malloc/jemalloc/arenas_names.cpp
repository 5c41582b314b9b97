// SPDX-License-Identifier: MIT
// arena.<i>.*: what can be done with one arena, or with all of them (index 4096, or arenas.narenas). arenas.*: what all
// arenas have in common: page, size classes, times of decay; and making an arena.
#include "malloc/entry_points.hpp"
#include "malloc/jemalloc/arena_table.hpp"
#include "malloc/jemalloc/identity.hpp"
#include "malloc/jemalloc/settings.hpp"
#include "malloc/jemalloc/tree.hpp"

namespace tarn::jemalloc {
namespace {

constexpr std::size_t index_part = 1;
constexpr std::size_t bin_part = 2;

// The pages that free blocks of an arena leave go to the heap that all arenas share, so every index means all of it.
int handle_purge(const request& r) {
  if (const int refused = refuse_values(r)) return refused;
  entry::trim(0);
  return 0;
}

int handle_reset(const request& r) {
  if (const int refused = refuse_values(r)) return refused;
  return arenas.reset(r.mib[index_part]);
}

int handle_destroy(const request& r) {
  if (const int refused = refuse_values(r)) return refused;
  return arenas.destroy(r.mib[index_part]);
}

template <std::ptrdiff_t (*Get)(), bool (*Set)(std::ptrdiff_t)>
int handle_decay_ms(const request& r) {
  if (const int wrong = give(r, Get())) return wrong;
  std::ptrdiff_t wanted = 0;
  if (r.fresh == nullptr) return 0;
  if (const int wrong = take(r, wanted)) return wrong;
  return Set(wanted) ? 0 : EFAULT;
}
constexpr auto handle_dirty = handle_decay_ms<decay_ms, set_decay_ms>;
constexpr auto handle_muzzy = handle_decay_ms<muzzy_decay_ms, set_muzzy_decay_ms>;

// The same where the name has an arena's index.
template <int (*Handle)(const request&)>
int of_arena(const request& r) {
  return arenas.exists(r.mib[index_part]) ? Handle(r) : EFAULT;
}

int handle_count(const request& r) { return give_only(r, arenas.count()); }

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

template <auto Value>
int handle_constant(const request& r) {
  return give_only(r, Value);
}

const size_classes::info& info_of(const request& r) { return class_info(class_of_bin(r.mib[bin_part])); }

int handle_bin_size(const request& r) { return give_only(r, std::size_t{info_of(r).size}); }
int handle_bin_regions(const request& r) { return give_only(r, std::uint32_t{info_of(r).objects}); }

constexpr node index_nodes[] = {
    leaf("purge", handle_purge),
    leaf("reset", handle_reset),
    leaf("destroy", handle_destroy),
    leaf("dirty_decay_ms", of_arena<handle_dirty>),
    leaf("muzzy_decay_ms", of_arena<handle_muzzy>),
};
constexpr node_list names_of_index = list_of(index_nodes);
constexpr node arena_index[] = {inner("", names_of_index)};

constexpr node bin_nodes[] = {leaf("size", handle_bin_size), leaf("nregs", handle_bin_regions)};
constexpr node_list bin_names = list_of(bin_nodes);
constexpr node bin_index[] = {inner("", bin_names)};
constexpr node_list bin_indices = list_of(bin_index);

constexpr node nodes[] = {
    leaf("narenas", handle_count),
    leaf("dirty_decay_ms", handle_dirty),
    leaf("muzzy_decay_ms", handle_muzzy),
    leaf("page", handle_constant<page_size>),
    leaf("nbins", handle_constant<bin_count>),
    indexed("bin", bin_indices, [](std::size_t i) { return i < bin_count; }),
    leaf("create", handle_create),
};

}  // namespace

bool is_arena_index(std::size_t index) { return index == all_arenas || index <= arenas.count(); }

constexpr node_list arena_names = list_of(arena_index);
constexpr node_list arenas_names = list_of(nodes);

}  // namespace tarn::jemalloc
