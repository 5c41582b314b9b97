/* SPDX-License-Identifier: MIT
 * writes: values that are written, and what they read as afterwards; arenas and explicit caches from their making to
 * their end. The lines of jemalloc and of libtarn-jemalloc are compared (compare.py). */
#include "jemalloc_calls.h"

static void show(const char* what, int result) { printf("%s\t%s\n", what, error_name(result)); }

static void try_decay(const char* name, ssize_t value) {
  ssize_t before = -7;
  ssize_t now = -7;
  size_t length = sizeof before;
  int result = mallctl(name, &before, &length, &value, sizeof value);
  length = sizeof now;
  REQUIRE(mallctl(name, &now, &length, NULL, 0) == 0);
  printf("%s := %zd\t%s\t%s\n", name, value, error_name(result), now == value ? "reads so" : "unchanged");
}

int main(void) {
  uint64_t first = 0;
  uint64_t second = 0;
  size_t length = sizeof first;
  uint64_t any = 77;
  REQUIRE(mallctl("epoch", &first, &length, NULL, 0) == 0);
  REQUIRE(mallctl("epoch", &second, &length, &any, sizeof any) == 0);
  printf("epoch\trises by %d\n", (int)(second - first));
  show("epoch of four bytes", mallctl("epoch", NULL, NULL, &any, 4));

  static const ssize_t times[] = {0, 5000, -1, -2, 1000};
  static const char* const names[] = {"arenas.dirty_decay_ms", "arenas.muzzy_decay_ms",
                                      "arena.0.dirty_decay_ms", "arena.0.muzzy_decay_ms"};
  for (size_t n = 0; n < 4; ++n) {
    for (size_t t = 0; t < 5; ++t) try_decay(names[n], times[t]);
  }
  ssize_t ms = 0;
  show("decay of all arenas", mallctl("arena.4096.dirty_decay_ms", NULL, NULL, &ms, sizeof ms));

  bool on = true;
  show("background_thread := true", mallctl("background_thread", NULL, NULL, &on, sizeof on));
  on = false;
  show("background_thread := false", mallctl("background_thread", NULL, NULL, &on, sizeof on));
  length = sizeof on;
  on = true;
  REQUIRE(mallctl("background_thread", &on, &length, NULL, 0) == 0);
  printf("background_thread\t%d\n", on);
  size_t threads = 0;
  show("max_background_threads := 0",
       mallctl("max_background_threads", NULL, NULL, &threads, sizeof threads));
  threads = 1;
  show("max_background_threads := 1",
       mallctl("max_background_threads", NULL, NULL, &threads, sizeof threads));
  threads = 100000;
  show("max_background_threads := 100000",
       mallctl("max_background_threads", NULL, NULL, &threads, sizeof threads));

  /* Explicit caches. */
  unsigned cache = 7;
  length = 2;
  int result = mallctl("tcache.create", &cache, &length, NULL, 0);
  printf("tcache.create into two bytes\t%s\tlength %zu\n", error_name(result), length);
  length = sizeof cache;
  show("tcache.create", mallctl("tcache.create", &cache, &length, NULL, 0));
  void* in_cache = mallocx(100, MALLOCX_TCACHE(cache));
  REQUIRE(in_cache != NULL);
  dallocx(in_cache, MALLOCX_TCACHE(cache));
  show("tcache.destroy of two bytes", mallctl("tcache.destroy", NULL, NULL, &cache, 2));
  show("tcache.destroy", mallctl("tcache.destroy", NULL, NULL, &cache, sizeof cache));

  /* Arenas. */
  unsigned arena = 0;
  unsigned count = 0;
  unsigned more = 0;
  length = sizeof count;
  REQUIRE(mallctl("arenas.narenas", &count, &length, NULL, 0) == 0);
  length = 2;
  show("arenas.create into two bytes", mallctl("arenas.create", &arena, &length, NULL, 0));
  length = sizeof count;
  show("arenas.create", mallctl("arenas.create", &arena, &length, NULL, 0));
  REQUIRE(mallctl("arenas.narenas", &more, &length, NULL, 0) == 0);
  printf("arenas.create\tindex is the last one: %d, one more arena: %d\n", arena == count, more == count + 1);

  char name[64];
  char* block = mallocx(1000, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE | MALLOCX_ZERO);
  char* large = mallocx(3000000, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(4096));
  REQUIRE(block != NULL && large != NULL && (uintptr_t)large % 4096 == 0);
  for (size_t i = 0; i < 1000; ++i) REQUIRE(block[i] == 0);
  block = rallocx(block, 5000, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE);
  REQUIRE(block != NULL && sallocx(block, 0) >= 5000);
  dallocx(block, MALLOCX_TCACHE_NONE);
  free(large); /* any way to free a block takes it */
  for (int i = 0; i < 1000; ++i)
    REQUIRE(mallocx(64 + (size_t)i, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE) != NULL);
  snprintf(name, sizeof name, "stats.arenas.%u.small.allocated", arena);
  size_t bytes = 0;
  length = sizeof bytes;
  REQUIRE(mallctl("epoch", NULL, NULL, &any, sizeof any) == 0);
  show("its bytes", mallctl(name, &bytes, &length, NULL, 0));
  printf("its bytes\tat least what was asked for: %d\n", bytes >= 1000 * 64);
  snprintf(name, sizeof name, "arena.%u.reset", arena);
  show("reset", mallctl(name, NULL, NULL, NULL, 0));
  REQUIRE(mallctl("epoch", NULL, NULL, &any, sizeof any) == 0);
  snprintf(name, sizeof name, "stats.arenas.%u.small.allocated", arena);
  show("its bytes after reset", mallctl(name, &bytes, &length, NULL, 0));
  printf("its bytes after reset\t%zu\n", bytes);
  snprintf(name, sizeof name, "arena.%u.destroy", arena);
  show("destroy", mallctl(name, NULL, NULL, NULL, 0));
  show("destroy again", mallctl(name, NULL, NULL, NULL, 0));
  snprintf(name, sizeof name, "arena.%u.reset", arena);
  show("reset of a destroyed arena", mallctl(name, NULL, NULL, NULL, 0));
  snprintf(name, sizeof name, "stats.arenas.%u.small.allocated", arena);
  length = sizeof bytes;
  show("figures of a destroyed arena", mallctl(name, &bytes, &length, NULL, 0));
  unsigned again = 0;
  length = sizeof again;
  REQUIRE(mallctl("arenas.create", &again, &length, NULL, 0) == 0);
  printf("arenas.create\tgives a destroyed index again: %d\n", again == arena);
  return 0;
}
