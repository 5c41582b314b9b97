// SPDX-License-Identifier: MIT
#include "malloc/entry_points.hpp"

#include "os/memory.hpp"

namespace tarn::entry {

void* valloc(std::size_t size) { return aligned_alloc(os::page_size(), size); }

void* pvalloc(std::size_t size) {
  if (size > largest_request) return out_of_memory();
  const std::size_t page = os::page_size();
  return allocate_aligned(page, align_up(size == 0 ? 1 : size, page));
}

std::size_t trim(std::size_t keep) {
  if (thread_cache* cache = engine::attach_thread()) cache->flush_all();
  engine::registry.for_each([](thread_cache& cache) { cache.take_surplus(false); });
  engine::registry.for_each_unused([](thread_cache& cache) { cache.flush_all(); });
  engine::middle.flush_idle_magazines(true);
  engine::middle.release_spares(true);
  return engine::heap.trim(keep);
}

}  // namespace tarn::entry
