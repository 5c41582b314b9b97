// SPDX-License-Identifier: MIT
// Misuse, fast build: free, realloc or delete of a pointer into the middle of a live block, small or large,
// aligned or not, does no harm.
#include <new>

#include "misuse.hpp"

using namespace guarantee;

namespace {

constexpr size_t sizes[] = {32, 64, 100, 256, 1000, 4000, 20 * kib, 100 * kib, 600 * kib, 3 * mib, 20 * mib};

struct way {
  const char* name;
  void (*act)(void* pointer, size_t size);
};

constexpr way ways[] = {
    {"free", [](void* pointer, size_t) { free(misused(pointer)); }},
    {"free twice",
     [](void* pointer, size_t) {
       free(misused(pointer));
       free(misused(pointer));
     }},
    {"realloc",
     [](void* pointer, size_t size) {
       void* const moved = realloc(misused(pointer), size * 2);
       if (moved != nullptr && moved != pointer) stamp(moved, 3, 0, size * 2);
     }},
    {"delete", [](void* pointer, size_t) { ::operator delete(misused(pointer)); }},
    {"sized delete", [](void* pointer, size_t size) { ::operator delete(misused(pointer), size); }},
};

// The offsets to try: just inside, misaligned, 16 bytes, the middle, the end, page borders. 0: none of this kind for
// this size.
size_t offset_of(size_t kind, size_t size) {
  const size_t page = 4096;
  switch (kind) {
    case 0: return 1;
    case 1: return 8;
    case 2: return 16;
    case 3: return size / 2 / 16 * 16;
    case 4: return size - 1;
    case 5: return size > 2 * page ? page : 0;
    case 6: return size > 128 * kib ? 64 * kib : 0;
    default: return size > 8 * mib ? 4 * mib : 0;
  }
}
constexpr size_t offset_kinds = 8;

void run_case(const way& w, size_t size, size_t offset, misuse_tally& tally) {
  char name[128];
  snprintf(name, sizeof name, "%s at offset %zu of %zu bytes", w.name, offset, size);
  misuse_case(name, tally, [&w, size, offset] {
    bystanders live;
    live.allocate(size);
    char* const block = static_cast<char*>(malloc(size));
    stamp(block, 5, 0, size);
    w.act(hide(block + offset), size);
    TARN_CHECK(stamped(block, 5, size), "the block itself changes");
    live.check("after the interior free");
    no_harm({size, nullptr, 0});
    TARN_CHECK(stamped(block, 5, size), "memory of the still live block %p is handed out",
               static_cast<void*>(block));
    live.check("after allocating more");
    free(block);
    live.free_all();
    allocate_and_judge({size, nullptr, 0});
  });
}

}  // namespace

int main() {
  start();
  misuse_tally tally;
  for (const size_t size : sizes) {
    for (size_t kind = 0; kind < offset_kinds; ++kind) {
      const size_t offset = offset_of(kind, size);
      if (offset == 0) continue;
      for (const way& w : ways) run_case(w, size, offset, tally);
    }
  }
  return finish(tally);
}
