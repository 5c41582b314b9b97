// SPDX-License-Identifier: MIT
// Misuse, fast build: no double free does harm. The second free comes at once, after one, ten or many frees of other
// blocks, or after a trim; by free, realloc or delete; for small and large blocks. The first free may come from another
// thread, which lives on or has ended.
#include <new>

#include "misuse.hpp"

using namespace guarantee;

namespace {

constexpr size_t sizes[] = {1,    16,   24,       64,        100,       200,     512,     1000,
                            2000, 5000, 20 * kib, 100 * kib, 600 * kib, 3 * mib, 20 * mib};

struct way {
  const char* name;
  void (*act)(void* block, size_t size);
};

void free_others(size_t size, size_t count) {
  void** const others = own_array<void*>(count);
  for (size_t i = 0; i < count; ++i) others[i] = malloc(size);
  for (size_t i = 0; i < count; ++i) free(others[i]);
}

// Frees the block and then `count` others, which were allocated before and so do not reuse its memory.
void free_before_others(void* block, size_t size, size_t count) {
  void** const others = own_array<void*>(count);
  for (size_t i = 0; i < count; ++i) others[i] = malloc(size);
  free(block);
  for (size_t i = 0; i < count; ++i) free(others[i]);
}

struct first_free {
  void* block;
  std::atomic<bool> done{false};
};

void* free_and_end(void* block) {
  free(block);
  return nullptr;
}
void* free_and_live(void* argument) {
  first_free* const first = static_cast<first_free*>(argument);
  free(first->block);
  first->done = true;
  for (;;) sleep_ms(1000);
}

size_t many(size_t size) { return size <= 4096 ? 10'000 : size <= 128 * kib ? 200 : 10; }

constexpr way ways[] = {
    {"free twice in a row",
     [](void* block, size_t) {
       free(block);
       free(misused(block));
     }},
    {"free three times",
     [](void* block, size_t) {
       free(block);
       free(misused(block));
       free(misused(block));
     }},
    {"free twice with one free between",
     [](void* block, size_t size) {
       free_before_others(block, size, 1);
       free(misused(block));
     }},
    {"free twice with ten frees between",
     [](void* block, size_t size) {
       free_before_others(block, size, 10);
       free(misused(block));
     }},
    {"free twice with many frees between",
     [](void* block, size_t size) {
       free_before_others(block, size, many(size));
       free(misused(block));
     }},
    {"free twice with frees of another size between",
     [](void* block, size_t size) {
       free(block);
       free_others(size * 3 + 40, 5);
       free(misused(block));
     }},
    {"realloc of a freed block",
     [](void* block, size_t size) {
       free(block);
       void* const moved = realloc(misused(block), size * 2);
       if (moved != nullptr) stamp(moved, 3, 0, size * 2);
     }},
    {"realloc of a freed block to 0 bytes",
     [](void* block, size_t) {
       free(block);
       if (realloc(misused(block), hide(size_t{0})) != nullptr) fail("realloc(p, 0) gives a block");
     }},
    {"delete twice",
     [](void* block, size_t) {
       ::operator delete(hide(block));
       ::operator delete(misused(block));
     }},
    {"sized delete twice",
     [](void* block, size_t size) {
       ::operator delete(hide(block), size);
       ::operator delete(misused(block), size);
     }},
    {"free of what realloc moved away",
     [](void* block, size_t size) {
       void* const moved = realloc(block, size * 5 + 100);
       if (moved != block) free(misused(block));
     }},
    {"free twice with a trim between",
     [](void* block, size_t) {
       free(block);
       malloc_trim(0);
       free(misused(block));
     }},
    {"free by a thread that lives on, then by this one",
     [](void* block, size_t) {
       static first_free first;
       first.block = block;
       start_thread(free_and_live, &first);
       while (!first.done) sleep_ms(1);
       free(misused(block));
     }},
    {"free by a thread that has ended, then by this one",
     [](void* block, size_t) {
       pthread_join(start_thread(free_and_end, block), nullptr);
       free(misused(block));
     }},
};

void run_case(const way& w, size_t size, misuse_tally& tally) {
  char name[128];
  snprintf(name, sizeof name, "%s, %zu bytes", w.name, size);
  misuse_case(name, tally, [&w, size] {
    bystanders live;
    live.allocate(size);
    void* const block = malloc(size);
    stamp(block, 5, 0, size);
    w.act(hide(block), size);
    live.check("after the double free");
    no_harm({size, nullptr, 0});
    live.check("after allocating more");
    live.free_all();
    allocate_and_judge({size, nullptr, 0});
  });
}

}  // namespace

int main() {
  start();
  misuse_tally tally;
  for (const size_t size : sizes) {
    for (const way& w : ways) run_case(w, size, tally);
  }
  return finish(tally);
}
