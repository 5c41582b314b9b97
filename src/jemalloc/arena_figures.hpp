// SPDX-License-Identifier: MIT
// arena_figures: the statistics of one arena, or of all together: for stats.arenas.<i> and malloc_stats_print. Pages that
// are in no use, caches and metadata belong to the heap that all arenas share; they count for arena 0.
//
// Thread safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn::jemalloc {

struct arena_figures {
  unsigned threads;
  std::size_t small;
  std::size_t large;
  std::size_t active_pages;
  std::size_t dirty_pages;
  std::size_t mapped;
  std::size_t retained;
  std::size_t metadata;
  std::size_t cached;
  std::size_t resident;
  std::uint64_t purged_pages;
};

// `index` as in stats.arenas.<index>. Figures of arenas that the program has made are of this moment.
arena_figures figures_of_arena(std::size_t index);

}  // namespace tarn::jemalloc
