/* SPDX-License-Identifier: MIT
 * For tests/package/musl_test.sh: malloc in a static C program, by several threads and in a forked child. With
 * WITHOUT_TARN the same under the C library's own malloc: what fails there is not tarn's fault. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef WITHOUT_TARN
#include <tarn/malloc.h>
#endif

#ifdef ALLOCATING_LIBC
/* A C library that allocates in pthread_atfork, as some builds of musl do, and a first allocation before the archive has
 * prepared itself. */
__attribute__((constructor(101))) static void allocate(void) {
  void* volatile block = malloc(24);
  free(block);
}
int __real_pthread_atfork(void (*)(void), void (*)(void), void (*)(void));
int __wrap_pthread_atfork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
  allocate();
  return __real_pthread_atfork(before, in_parent, in_child);
}
#endif

enum { threads = 4, rounds = 20000, kept = 64 };

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "static_program: %s\n", what);
  exit(1);
}

/* Blocks of many sizes, each filled with a value of its own that must still be there when it is freed. */
static void* work(void* seed) {
  unsigned char* blocks[kept] = {0};
  size_t sizes[kept] = {0};
  unsigned random = (unsigned)(uintptr_t)seed;
  for (int round = 0; round < rounds; ++round) {
    random = random * 1103515245U + 12345U;
    const unsigned place = (random >> 16) % kept;
    for (size_t i = 0; i < sizes[place]; i += 97)
      check(blocks[place][i] == (unsigned char)place, "a block has changed");
    const size_t size = 1 + (random >> 8) % (round % 1000 == 0 ? 3000000 : 3000);
    unsigned char* const block = realloc(blocks[place], size);
    check(block != NULL, "realloc failed");
    memset(block, (int)place, size);
    blocks[place] = block;
    sizes[place] = size;
  }
  for (unsigned place = 0; place < kept; ++place) free(blocks[place]);
  return NULL;
}

int main(void) {
  pthread_t running[threads];
  for (uintptr_t i = 0; i < threads; ++i)
    check(pthread_create(&running[i], NULL, work, (void*)(i + 1)) == 0, "no thread");
  const pid_t child = fork();
  if (child == 0) {
    work((void*)99);
    _exit(0);
  }
  for (int i = 0; i < threads; ++i) check(pthread_join(running[i], NULL) == 0, "no end of a thread");
  int status = 1;
  check(waitpid(child, &status, 0) == child && status == 0, "the forked child failed");

  void* aligned = NULL;
  check(posix_memalign(&aligned, 4096, 100) == 0 && (uintptr_t)aligned % 4096 == 0, "posix_memalign");
  free(aligned);
  char* const text = strdup("the C library's own calls");
  check(text != NULL && strlen(text) == 25, "strdup");
  free(text);
  errno = 0;
  volatile size_t too_much = SIZE_MAX / 2 + 1;
  check(malloc(too_much) == NULL && errno == ENOMEM, "a size that is too large");
#ifndef WITHOUT_TARN
  tarn_stats before, after;
  tarn_get_stats_sized(&before, sizeof before);
  void* volatile block = malloc(32 << 20);
  tarn_get_stats_sized(&after, sizeof after);
  check(after.in_use >= before.in_use + (32 << 20), "malloc is not tarn's");
  free(block);
  check(after.refills > 0, "the threads' blocks were not tarn's");
#endif
  return 0;
}
