// SPDX-License-Identifier: MIT
#include "malloc/entry_points.hpp"

#include "background/reclaim.hpp"
#include "engine/front.hpp"
#include "os/memory.hpp"

namespace tarn::entry {

void* valloc(std::size_t size) { return aligned_alloc(os::system_page_size(), size); }

std::size_t whole_pages(std::size_t size) {
  return size > largest_request ? 0 : align_up(size == 0 ? 1 : size, os::system_page_size());
}

void* pvalloc(std::size_t size) {
  const std::size_t bytes = whole_pages(size);
  return bytes == 0 ? out_of_memory() : allocate_aligned(os::system_page_size(), bytes);
}

std::size_t trim(std::size_t keep) {
  engine::attach_thread();
  engine::for_each_front([](const engine::front& e) { e.trim(); });
  return engine::trim(keep);
}

}  // namespace tarn::entry
