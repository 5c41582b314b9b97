// SPDX-License-Identifier: MIT
// stats.*: the figures as of the last write to "epoch" (figures.hpp). What tarn does not count has no name here: the
// calls of malloc and free of each size, and the waits for locks.
#include "jemalloc/arena_figures.hpp"
#include "jemalloc/arena_table.hpp"
#include "jemalloc/figures.hpp"
#include "jemalloc/settings.hpp"
#include "jemalloc/tree.hpp"
#include "os/clock.hpp"

namespace tarn::jemalloc {
namespace {

constexpr std::size_t place_of_arena = 2;
constexpr std::size_t place_of_bin = 4;

// ---- of the whole process ----

template <std::size_t figures::*Member>
int handle_figure(const request& r) {
  return give_only(r, from_figures([](const figures& f) { return f.*Member; }));
}
template <auto Value>
int handle_constant(const request& r) {
  return give_only(r, Value);
}
int handle_background_threads(const request& r) {
  return give_only(r, std::size_t{has_background_thread() ? 1U : 0U});
}

// ---- of an arena ----

template <auto Member>
int handle_arena_figure(const request& r) {
  return give_only(r, figures_of_arena(r.mib[place_of_arena]).*Member);
}
int handle_uptime(const request& r) { return give_only(r, uptime_ns()); }
int handle_dss(const request& r) {
  const char* const unused = "disabled";
  return give_only(r, unused);
}
template <std::ptrdiff_t (*Get)()>
int handle_decay_ms(const request& r) {
  return give_only(r, Get());
}

// ---- of a size class; only of the heap of malloc, since other arenas do not count by class ----

template <auto Member>
int handle_bin(const request& r) {
  const std::size_t arena = r.mib[place_of_arena];
  if (arena != 0 && arena != all_arenas && arena != arenas.count()) return ENOENT;
  const std::size_t bin = r.mib[place_of_bin];
  return give_only(r, from_figures([bin](const figures& f) { return f.bins[bin].*Member; }));
}

constexpr node bin_nodes[] = {
    leaf("curregs", handle_bin<&bin_figures::regions>),
    leaf("nfills", handle_bin<&bin_figures::fills>),
    leaf("nflushes", handle_bin<&bin_figures::flushes>),
    leaf("nslabs", handle_bin<&bin_figures::slabs_made>),
    leaf("curslabs", handle_bin<&bin_figures::slabs>),
    leaf("nonfull_slabs", handle_bin<&bin_figures::nonfull_slabs>),
};
constexpr node_list bin_names = list_of(bin_nodes);
constexpr node bin_index[] = {inner("", bin_names)};
constexpr node_list bin_indices = list_of(bin_index);

constexpr node small_nodes[] = {leaf("allocated", handle_arena_figure<&arena_figures::small>)};
constexpr node_list small_names = list_of(small_nodes);
constexpr node large_nodes[] = {leaf("allocated", handle_arena_figure<&arena_figures::large>)};
constexpr node_list large_names = list_of(large_nodes);

constexpr node arena_nodes[] = {
    leaf("nthreads", handle_arena_figure<&arena_figures::threads>),
    leaf("uptime", handle_uptime),
    leaf("dss", handle_dss),
    leaf("dirty_decay_ms", handle_decay_ms<decay_ms>),
    leaf("muzzy_decay_ms", handle_decay_ms<muzzy_decay_ms>),
    leaf("pactive", handle_arena_figure<&arena_figures::active_pages>),
    leaf("pdirty", handle_arena_figure<&arena_figures::dirty_pages>),
    leaf("pmuzzy", handle_constant<std::size_t{0}>),
    leaf("mapped", handle_arena_figure<&arena_figures::mapped>),
    leaf("retained", handle_arena_figure<&arena_figures::retained>),
    leaf("dirty_purged", handle_arena_figure<&arena_figures::purged_pages>),
    leaf("muzzy_purged", handle_constant<std::uint64_t{0}>),
    leaf("base", handle_arena_figure<&arena_figures::metadata>),
    leaf("internal", handle_constant<std::size_t{0}>),
    leaf("metadata_thp", handle_constant<std::size_t{0}>),
    leaf("tcache_bytes", handle_arena_figure<&arena_figures::cached>),
    leaf("resident", handle_arena_figure<&arena_figures::resident>),
    inner("small", small_names),
    inner("large", large_names),
    indexed("bins", bin_indices, [](std::size_t i) { return i < bin_count; }),
};
constexpr node_list arena_names_of_stats = list_of(arena_nodes);
constexpr node arena_index[] = {inner("", arena_names_of_stats)};
constexpr node_list arena_indices = list_of(arena_index);

constexpr node background_nodes[] = {leaf("num_threads", handle_background_threads)};
constexpr node_list background_names = list_of(background_nodes);

constexpr node nodes[] = {
    leaf("allocated", handle_figure<&figures::allocated>),
    leaf("active", handle_figure<&figures::active>),
    leaf("metadata", handle_figure<&figures::metadata>),
    leaf("metadata_thp", handle_constant<std::size_t{0}>),
    leaf("resident", handle_figure<&figures::resident>),
    leaf("mapped", handle_figure<&figures::mapped>),
    leaf("retained", handle_figure<&figures::retained>),
    inner("background_thread", background_names),
    indexed("arenas", arena_indices, has_figures),
};

}  // namespace

bool has_figures(std::size_t index) {
  return index == all_arenas || index == arenas.count() || arenas.exists(index) ||
         (index == destroyed_arenas && arenas.has_destroyed());
}

constexpr node_list stats_names = list_of(nodes);

}  // namespace tarn::jemalloc
