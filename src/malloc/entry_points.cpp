// SPDX-License-Identifier: MIT
#include "malloc/entry_points.hpp"

#include "os/memory.hpp"
#include "runtime/front.hpp"

namespace tarn::entry {

void* valloc(std::size_t size) { return aligned_alloc(os::system_page_size(), size); }

void* pvalloc(std::size_t size) {
  if (size > largest_request) return out_of_memory();
  const std::size_t page = os::system_page_size();
  return allocate_aligned(page, align_up(size == 0 ? 1 : size, page));
}

std::size_t trim(std::size_t keep) {
  engine::attach_thread();
  engine::for_each_front([](const engine::front& e) { e.trim(); });
  return engine::trim(keep);
}

}  // namespace tarn::entry
