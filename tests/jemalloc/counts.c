/* SPDX-License-Identifier: MIT
 * counts: thread.allocated and thread.deallocated follow what the thread allocates and frees, stats.allocated what is
 * live, and the statistics stand still between two writes to "epoch". Run with both libraries. */
#include <pthread.h>

#include "jemalloc_calls.h"

static uint64_t read64(const char* name) {
  uint64_t value = 0;
  size_t length = sizeof value;
  REQUIRE(mallctl(name, &value, &length, NULL, 0) == 0);
  return value;
}
static void refresh(void) {
  uint64_t any = 1;
  REQUIRE(mallctl("epoch", NULL, NULL, &any, sizeof any) == 0);
}

static void* count(void* unused) {
  static const size_t sizes[] = {16, 48, 160, 1024, 5000, 40000, 300000, 2000000};
  void* blocks[500];
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    for (int round = 0; round < 3; ++round) {
      const int number = sizes[s] > 100000 ? 5 : 500;
      const uint64_t allocated = read64("thread.allocated");
      const uint64_t freed = read64("thread.deallocated");
      size_t bytes = 0;
      for (int i = 0; i < number; ++i) {
        blocks[i] = malloc(sizes[s]);
        bytes += malloc_usable_size(blocks[i]);
      }
      REQUIRE(read64("thread.allocated") - allocated == bytes);
      REQUIRE(read64("thread.deallocated") - freed == 0);
      for (int i = 0; i < number; ++i) free(blocks[i]);
      REQUIRE(read64("thread.allocated") - allocated == bytes);
      REQUIRE(read64("thread.deallocated") - freed == bytes);
      if (round == 1) REQUIRE(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0) == 0);
    }
  }
  /* Without a cache. */
  const uint64_t allocated = read64("thread.allocated");
  const uint64_t freed = read64("thread.deallocated");
  void* block = mallocx(200, MALLOCX_TCACHE_NONE);
  const size_t bytes = sallocx(block, 0);
  dallocx(block, MALLOCX_TCACHE_NONE);
  REQUIRE(read64("thread.allocated") - allocated == bytes && read64("thread.deallocated") - freed == bytes);
  /* The pointers. */
  uint64_t* pointer = NULL;
  size_t length = sizeof pointer;
  REQUIRE(mallctl("thread.allocatedp", &pointer, &length, NULL, 0) == 0 && pointer != NULL);
  REQUIRE(*pointer == read64("thread.allocated"));
  return unused;
}

/* Clients look whether the figure behind the pointer moves. */
static void look_at_pointer(void) {
  static const size_t sizes[] = {1, 100, 3000, 3000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    uint64_t* pointer = NULL;
    size_t length = sizeof pointer;
    REQUIRE(mallctl("thread.allocatedp", &pointer, &length, NULL, 0) == 0);
    const uint64_t before = *(volatile uint64_t*)pointer;
    void* volatile block = malloc(sizes[i]);
    REQUIRE(*(volatile uint64_t*)pointer >= before + sizes[i]);
    free(block);
  }
}

int main(void) {
  count(NULL);
  for (int i = 0; i < 4; ++i) { /* one after the other: the second uses the first one's cache again */
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, count, NULL) == 0 && pthread_join(thread, NULL) == 0);
  }
  refresh();
  const uint64_t before = read64("stats.allocated");
  enum { number = 20000 };
  static void* blocks[number];
  size_t bytes = 0;
  for (int i = 0; i < number; ++i) {
    blocks[i] = malloc(100 + (size_t)i % 2000);
    bytes += malloc_usable_size(blocks[i]);
  }
  REQUIRE(read64("stats.allocated") == before); /* as of the last epoch */
  refresh();
  const uint64_t now = read64("stats.allocated");
  /* What lies in caches may count. */
  REQUIRE(now >= before + bytes && now < before + bytes + 2000000);
  REQUIRE(read64("stats.active") >= now && read64("stats.resident") >= read64("stats.active"));
  REQUIRE(read64("stats.mapped") >= read64("stats.active") && read64("stats.metadata") > 0);
  for (int i = 0; i < number; ++i) free(blocks[i]);
  refresh();
  REQUIRE(read64("stats.allocated") < before + 2000000);
  look_at_pointer();
  return 0;
}
