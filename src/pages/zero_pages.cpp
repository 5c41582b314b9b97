// SPDX-License-Identifier: MIT
#include "pages/zero_pages.hpp"

#include <cstring>

namespace tarn {

std::size_t zero_dirty_pages(const page_map& map, const span* s) {
  if (s->dirty_pages == 0) return 0;
  std::size_t zeroed = 0;
  std::uintptr_t at = s->start;
  while (at < s->end()) {
    const std::uintptr_t run = at;
    while (at < s->end() && map.backing(at) != page_backing::clean) at += page_size;
    if (at != run) std::memset(reinterpret_cast<void*>(run), 0, at - run);
    zeroed += at - run;
    if (at < s->end()) at += page_size;
  }
  return zeroed;
}

}  // namespace tarn
