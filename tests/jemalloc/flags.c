/* SPDX-License-Identifier: MIT
 * flags: the functions with flags keep their promises: sizes, alignments, zeroes, contents, errors. Run with jemalloc and
 * with libtarn-jemalloc; it prints nothing where all holds. */
#include "jemalloc_calls.h"

static void fill(unsigned char* block, size_t size, unsigned seed) {
  for (size_t i = 0; i < size; ++i) block[i] = (unsigned char)(seed + i * 7);
}
static int holds(const unsigned char* block, size_t size, unsigned seed) {
  for (size_t i = 0; i < size; ++i) {
    if (block[i] != (unsigned char)(seed + i * 7)) return 0;
  }
  return 1;
}
static int is_zero(const unsigned char* block, size_t from, size_t to) {
  for (size_t i = from; i < to; ++i) {
    if (block[i] != 0) return 0;
  }
  return 1;
}

static const size_t sizes[] = {1,     7,      8,      9,      16,     17,      48,     100,
                               128,   129,    1000,   1024,   1025,   4096,    10000,  16384,
                               65536, 200000, 262144, 262145, 300000, 1048576, 5000001};
static const int caches[] = {0, MALLOCX_TCACHE_NONE, MALLOCX_ARENA(0),
                             MALLOCX_ARENA(0) | MALLOCX_TCACHE_NONE};

static void allocate_each_way(void) {
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    for (int lg = 0; lg <= 22; ++lg) {
      for (size_t c = 0; c < sizeof caches / sizeof *caches; ++c) {
        const int flags = (lg == 0 ? 0 : MALLOCX_LG_ALIGN(lg)) | caches[c];
        /* Memory that was used before, so that zeroes are not there by chance. */
        unsigned char* dirty = mallocx(sizes[s], flags);
        REQUIRE(dirty != NULL);
        memset(dirty, 0xa5, sizes[s]);
        dallocx(dirty, flags);
        unsigned char* block = mallocx(sizes[s], flags | MALLOCX_ZERO);
        REQUIRE(block != NULL && ((uintptr_t)block & (((uintptr_t)1 << lg) - 1)) == 0);
        REQUIRE(is_zero(block, 0, sizes[s]));
        const size_t usable = sallocx(block, flags);
        REQUIRE(usable >= sizes[s] && usable == malloc_usable_size(block));
        REQUIRE(nallocx(sizes[s], flags) >= sizes[s] && usable >= nallocx(sizes[s], flags));
        fill(block, usable, (unsigned)s);
        REQUIRE(holds(block, usable, (unsigned)s));
        if (s % 2 == 0)
          dallocx(block, flags);
        else
          sdallocx(block, sizes[s], flags);
      }
    }
  }
}

static void resize_each_way(void) {
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    for (size_t t = 0; t < sizeof sizes / sizeof *sizes; ++t) {
      for (size_t c = 0; c < sizeof caches / sizeof *caches; ++c) {
        const int flags = caches[c] | MALLOCX_ALIGN(64);
        unsigned char* block = mallocx(sizes[s], caches[c]);
        const size_t had = sallocx(block, 0);
        fill(block, had, 3);
        block = rallocx(block, sizes[t], flags | MALLOCX_ZERO);
        REQUIRE(block != NULL && (uintptr_t)block % 64 == 0);
        const size_t kept = had < sizes[t] ? had : sizes[t];
        REQUIRE(holds(block, kept, 3) &&
                is_zero(block, had, sallocx(block, 0) > sizes[t] ? sizes[t] : sallocx(block, 0)));
        dallocx(block, caches[c]);
        unsigned char* fixed = mallocx(sizes[s], 0);
        fill(fixed, sizes[s], 9);
        const size_t before = sallocx(fixed, 0);
        const size_t now = xallocx(fixed, sizes[t], 1000, MALLOCX_ZERO);
        REQUIRE(now == sallocx(fixed, 0) && (now >= sizes[t] || now == before));
        REQUIRE(holds(fixed, now < sizes[s] ? now : sizes[s], 9) && is_zero(fixed, before, now));
        free(fixed);
      }
    }
  }
}

static void refuse_what_cannot_be(void) {
  volatile size_t huge = SIZE_MAX; /* hidden from the compiler, which warns of such sizes */
  errno = 0;
  REQUIRE(mallocx(huge, 0) == NULL && errno == 0);
  REQUIRE(mallocx(huge / 2 + 2, 0) == NULL && errno == 0);
  REQUIRE(mallocx(huge - 5000, MALLOCX_ALIGN(4096)) == NULL && errno == 0);
  REQUIRE(mallocx(huge, MALLOCX_TCACHE_NONE) == NULL && mallocx(huge, MALLOCX_ZERO) == NULL);
  REQUIRE(nallocx(huge, 0) == 0 && nallocx(huge / 2 + 2, 0) == 0 && nallocx(1, MALLOCX_LG_ALIGN(63)) == 0);
  unsigned char* block = mallocx(100, 0);
  fill(block, 100, 1);
  REQUIRE(rallocx(block, huge, 0) == NULL && errno == 0 && holds(block, 100, 1));
  REQUIRE(xallocx(block, 100, huge - 100, 0) >= 100 && holds(block, 100, 1));
  dallocx(block, 0);
  errno = 0;
}

int main(void) {
  allocate_each_way();
  resize_each_way();
  refuse_what_cannot_be();
  return 0;
}
