// SPDX-License-Identifier: MIT
// stats.*: the figures as of the last write to "epoch" (figures.hpp).
#include "malloc/jemalloc/arena_table.hpp"
#include "malloc/jemalloc/figures.hpp"
#include "malloc/jemalloc/tree.hpp"

namespace tarn::jemalloc {
namespace {

constexpr std::size_t arena_part = 2;
constexpr std::size_t bin_part = 4;

bool is_all(std::size_t index) { return index == all_arenas || index == arenas.count(); }
bool has_figures(std::size_t index) { return is_all(index) || arenas.exists(index); }

template <std::size_t figures::*Member>
int handle_figure(const request& r) {
  return give_only(r, from_figures([](const figures& f) { return f.*Member; }));
}

// Of an arena that the program has made: of this moment. Arena 0 has the rest of the figures of all arenas.
arena_bytes figures_of(std::size_t index) {
  if (scope_core* const arena = arenas.find(index)) return arena->bytes();
  const arena_bytes made = is_all(index) ? arena_bytes{} : arenas.bytes();
  const auto less = [](std::size_t whole, std::size_t part) { return whole > part ? whole - part : 0; };
  return from_figures([&](const figures& f) {
    arena_bytes out{};
    out.small = less(f.small, made.small);
    out.large = less(f.large, made.large);
    out.spans = less(f.active, made.spans);
    return out;
  });
}

template <std::size_t arena_bytes::*Member, unsigned Shift = 0>
int handle_arena_figure(const request& r) {
  return give_only(r, std::size_t{figures_of(r.mib[arena_part]).*Member >> Shift});
}
// A page is clean or dirty.
int handle_muzzy(const request& r) { return give_only(r, std::size_t{0}); }

// Of a size class; only of the heap of malloc, since other arenas do not count by class.
template <std::size_t bin_figures::*Member>
int handle_bin(const request& r) {
  const std::size_t arena = r.mib[arena_part];
  if (arena != 0 && !is_all(arena)) return ENOENT;
  const std::size_t bin = r.mib[bin_part];
  return give_only(r, from_figures([bin](const figures& f) { return f.bins[bin].*Member; }));
}

constexpr node bin_nodes[] = {leaf("curregs", handle_bin<&bin_figures::regions>),
                              leaf("curslabs", handle_bin<&bin_figures::slabs>)};
constexpr node_list bin_names = list_of(bin_nodes);
constexpr node bin_index[] = {inner("", bin_names)};
constexpr node_list bin_indices = list_of(bin_index);

constexpr node small_nodes[] = {leaf("allocated", handle_arena_figure<&arena_bytes::small>)};
constexpr node_list small_names = list_of(small_nodes);
constexpr node large_nodes[] = {leaf("allocated", handle_arena_figure<&arena_bytes::large>)};
constexpr node_list large_names = list_of(large_nodes);

constexpr node arena_nodes[] = {
    leaf("pactive", handle_arena_figure<&arena_bytes::spans, page_shift>),
    leaf("pmuzzy", handle_muzzy),
    inner("small", small_names),
    inner("large", large_names),
    indexed("bins", bin_indices, [](std::size_t i) { return i < bin_count; }),
};
constexpr node_list arena_names_of_stats = list_of(arena_nodes);
constexpr node arena_index[] = {inner("", arena_names_of_stats)};
constexpr node_list arena_indices = list_of(arena_index);

constexpr node nodes[] = {
    leaf("allocated", handle_figure<&figures::allocated>),
    leaf("active", handle_figure<&figures::active>),
    leaf("metadata", handle_figure<&figures::metadata>),
    leaf("resident", handle_figure<&figures::resident>),
    leaf("mapped", handle_figure<&figures::mapped>),
    leaf("retained", handle_figure<&figures::retained>),
    indexed("arenas", arena_indices, has_figures),
};

}  // namespace

constexpr node_list stats_names = list_of(nodes);

}  // namespace tarn::jemalloc
