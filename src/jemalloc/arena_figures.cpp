// SPDX-License-Identifier: MIT
#include "jemalloc/arena_figures.hpp"

#include "jemalloc/arena_table.hpp"
#include "jemalloc/figures.hpp"

namespace tarn::jemalloc {
namespace {

arena_figures figures_of_made(scope_core& arena) {
  const arena_bytes bytes = arena.bytes();
  arena_figures out{};
  out.small = bytes.small;
  out.large = bytes.large;
  out.active_pages = bytes.spans >> page_shift;
  out.mapped = out.resident = bytes.spans;
  return out;
}

constexpr std::size_t less(std::size_t whole, std::size_t part) { return whole > part ? whole - part : 0; }

}  // namespace

arena_figures figures_of_arena(std::size_t index) {
  if (scope_core* const arena = arenas.find(index)) return figures_of_made(*arena);
  if (index == destroyed_arenas) return {};
  const bool all = index == all_arenas || index == arenas.count();
  const arena_bytes made = all ? arena_bytes{} : arenas.bytes();
  return from_figures([made](const figures& f) {
    arena_figures out{};
    out.threads = f.threads;
    out.small = less(f.small, made.small);
    out.large = less(f.large, made.large);
    out.active_pages = less(f.active, made.spans) >> page_shift;
    out.dirty_pages = f.dirty >> page_shift;
    out.mapped = less(f.mapped, made.spans);
    out.retained = f.retained;
    out.metadata = f.metadata;
    out.cached = f.cached;
    out.resident = less(f.resident, made.spans);
    out.purged_pages = f.purged >> page_shift;
    return out;
  });
}

}  // namespace tarn::jemalloc
