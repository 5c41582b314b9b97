/* SPDX-License-Identifier: MIT
 * threads: threads that make and destroy arenas, pass blocks of arenas to each other, and ask for statistics, beside
 * threads that allocate. Children of fork go on with all of it. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jemalloc_calls.h"

enum { blocks = 400, rounds = 40 };
static _Atomic(void*) passed[64];
/* jemalloc keeps blocks that free() takes in the thread's cache, beyond the end of their arena. */
static bool free_takes_any_block;

static void make_and_destroy(unsigned seed) {
  unsigned arena = 0;
  size_t length = sizeof arena;
  REQUIRE(mallctl("arenas.create", &arena, &length, NULL, 0) == 0);
  unsigned char* mine[blocks];
  const int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
  for (unsigned i = 0; i < blocks; ++i) {
    const size_t size = 1 + (seed * 7919u + i * 104729u) % (i % 50 == 0 ? 400000 : 3000);
    mine[i] = mallocx(size, flags);
    REQUIRE(mine[i] != NULL);
    memset(mine[i], (int)(seed & 255), size);
  }
  for (unsigned i = 0; i < blocks; i += 2) {
    REQUIRE(*mine[i] == (seed & 255));
    i % 4 == 0 && free_takes_any_block ? free(mine[i]) : dallocx(mine[i], flags);
  }
  for (unsigned i = 1; i < blocks; i += 2) REQUIRE(*mine[i] == (seed & 255));
  char name[64];
  snprintf(name, sizeof name, seed % 2 == 0 ? "arena.%u.destroy" : "arena.%u.reset", arena);
  REQUIRE(mallctl(name, NULL, NULL, NULL, 0) == 0);
  snprintf(name, sizeof name, "arena.%u.destroy", arena);
  if (seed % 2 != 0) REQUIRE(mallctl(name, NULL, NULL, NULL, 0) == 0);
}

static void pass_blocks(unsigned seed) {
  for (unsigned i = 0; i < 2000; ++i) {
    unsigned char* fresh = mallocx(1 + (seed + i) % 700, i % 3 == 0 ? MALLOCX_TCACHE_NONE : 0);
    REQUIRE(fresh != NULL);
    *fresh = 1;
    void* other = passed[(seed * 31 + i) % 64];
    while (!__atomic_compare_exchange_n((void**)&passed[(seed * 31 + i) % 64], &other, (void*)fresh, 0,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    }
    if (other != NULL) dallocx(other, i % 2 == 0 ? MALLOCX_TCACHE_NONE : 0);
  }
}

static void ask(void) {
  uint64_t epoch = 1;
  size_t length = sizeof epoch;
  REQUIRE(mallctl("epoch", &epoch, &length, &epoch, sizeof epoch) == 0);
  size_t allocated = 0;
  size_t active = 0;
  length = sizeof allocated;
  REQUIRE(mallctl("stats.allocated", &allocated, &length, NULL, 0) == 0);
  REQUIRE(mallctl("stats.active", &active, &length, NULL, 0) == 0);
}

static void* work(void* number) {
  const unsigned seed = (unsigned)(uintptr_t)number;
  for (unsigned round = 0; round < rounds; ++round) {
    if (seed % 3 == 0) make_and_destroy(seed * 1000 + round);
    if (seed % 3 == 1) pass_blocks(seed + round);
    if (seed % 3 == 2) ask();
  }
  return NULL;
}

int main(void) {
  const char* version = NULL;
  size_t length = sizeof version;
  REQUIRE(mallctl("version", &version, &length, NULL, 0) == 0);
  free_takes_any_block = strstr(version, "tarn") != NULL;
  pthread_t threads[6];
  for (uintptr_t i = 0; i < 6; ++i) REQUIRE(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      make_and_destroy(5);
      ask();
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  for (int i = 0; i < 6; ++i) REQUIRE(pthread_join(threads[i], NULL) == 0);
  return 0;
}
