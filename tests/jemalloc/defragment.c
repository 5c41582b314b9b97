/* SPDX-License-Identifier: MIT
 * defragment: fills a cache with values of many sizes, drops most of them, and moves the rest out of sparse memory by what
 * experimental.utilization tells, as Valkey's active defragmentation does since 8.1. Prints the bytes of the values that are left, active memory
 * before and after, the moves, and the time. With --tarn: by tarn_would_move and tarn_move instead. Ends with 1 if a value is damaged or
 * active memory is still more than 1.25 times the values. */
#include <time.h>

#include "jemalloc_calls.h"

enum { values = 400000, batch = 256, most_passes = 12 };
static unsigned char* value[values];
static size_t length_of[values];

static size_t figure(const char* name) {
  uint64_t epoch = 1;
  size_t size = sizeof epoch;
  REQUIRE(mallctl("epoch", &epoch, &size, &epoch, sizeof epoch) == 0);
  size_t number = 0;
  size = sizeof number;
  REQUIRE(mallctl(name, &number, &size, NULL, 0) == 0);
  return number;
}

/* Valkey's rule: the block's slab is not full, its class has other partial slabs, and the slab is at most an eighth fuller
 * than these are on average. */
typedef struct {
  size_t regions, bytes, nonfull_slabs, curslabs, curregs;
} bin;
static bin bins[256];
static unsigned bin_count;

static size_t by_name(const char* format, unsigned index) {
  char name[64];
  snprintf(name, sizeof name, format, index);
  union {
    size_t wide;
    uint32_t narrow;
  } number = {0};
  size_t size = sizeof number.wide;
  if (mallctl(name, &number, &size, NULL, 0) == 0) return number.wide;
  size = sizeof number.narrow;
  number.wide = 0;
  REQUIRE(mallctl(name, &number, &size, NULL, 0) == 0);
  return number.narrow;
}

static void read_bins(void) {
  (void)figure("stats.allocated"); /* a new epoch */
  size_t size = sizeof bin_count;
  REQUIRE(mallctl("arenas.nbins", &bin_count, &size, NULL, 0) == 0);
  for (unsigned i = 0; i < bin_count; ++i) {
    bins[i].regions = by_name("arenas.bin.%u.nregs", i);
    bins[i].bytes = by_name("arenas.bin.%u.size", i);
    bins[i].nonfull_slabs = by_name("stats.arenas.4096.bins.%u.nonfull_slabs", i);
    bins[i].curslabs = by_name("stats.arenas.4096.bins.%u.curslabs", i);
    bins[i].curregs = by_name("stats.arenas.4096.bins.%u.curregs", i);
  }
}

static const bin* bin_of(size_t bytes) {
  for (unsigned i = 0; i < bin_count; ++i) {
    if (bins[i].bytes >= bytes) return &bins[i];
  }
  return NULL;
}

static int would_help(const bin* b, size_t free_regions, size_t regions) {
  if (b == NULL || regions != b->regions || free_regions == 0 || b->nonfull_slabs < 2) return 0;
  const size_t taken = regions - free_regions;
  const size_t full = (b->curslabs - b->nonfull_slabs) * b->regions;
  const size_t in_nonfull = b->curregs > full ? b->curregs - full : 0;
  return 1000 * taken * b->nonfull_slabs <= 1125 * in_nonfull;
}

static size_t pass_by_utilization(void) {
  static const void* asked[batch];
  static size_t index[batch];
  static size_t answers[3 * batch];
  size_t moves = 0;
  read_bins();
  for (size_t i = 0; i < values;) {
    size_t count = 0;
    for (; i < values && count < batch; ++i) {
      if (value[i] == NULL) continue;
      index[count] = i;
      asked[count++] = value[i];
    }
    if (count == 0) break;
    size_t size = count * 3 * sizeof *answers;
    REQUIRE(mallctl("experimental.utilization.batch_query", answers, &size, asked, count * sizeof *asked) ==
            0);
    for (size_t k = 0; k < count; ++k) {
      const size_t bytes = sallocx(value[index[k]], 0);
      if (!would_help(bin_of(bytes), answers[3 * k], answers[3 * k + 1])) continue;
      unsigned char* fresh = mallocx(bytes, MALLOCX_TCACHE_NONE);
      REQUIRE(fresh != NULL);
      memcpy(fresh, value[index[k]], bytes);
      dallocx(value[index[k]], MALLOCX_TCACHE_NONE);
      value[index[k]] = fresh;
      ++moves;
    }
  }
  return moves;
}

static int (*tarn_would_move)(const void*, double);
static void* (*tarn_move)(void*);

static size_t pass_by_tarn(void) {
  size_t moves = 0;
  for (size_t i = 0; i < values; ++i) {
    if (value[i] == NULL || !tarn_would_move(value[i], 1.125)) continue;
    value[i] = tarn_move(value[i]);
    REQUIRE(value[i] != NULL);
    ++moves;
  }
  return moves;
}

static double processor_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

int main(int count, char** words) {
  const int by_tarn = count > 1 && strcmp(words[1], "--tarn") == 0;
  if (by_tarn) {
    *(void**)&tarn_would_move = dlsym(RTLD_DEFAULT, "tarn_would_move");
    *(void**)&tarn_move = dlsym(RTLD_DEFAULT, "tarn_move");
    REQUIRE(tarn_would_move != NULL && tarn_move != NULL);
  }
  unsigned seed = 1;
  for (size_t i = 0; i < values; ++i) {
    seed = seed * 1664525u + 1013904223u;
    length_of[i] = 20 + (seed >> 8) % 600;
    value[i] = malloc(length_of[i]);
    REQUIRE(value[i] != NULL);
    memset(value[i], (int)(i & 255), length_of[i]);
  }
  size_t left = 0;
  for (size_t i = 0; i < values; ++i) {
    seed = seed * 1664525u + 1013904223u;
    if ((seed >> 8) % 8 != 0) {
      free(value[i]);
      value[i] = NULL;
    } else {
      left += sallocx(value[i], 0);
    }
  }
  REQUIRE(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0) == 0);
  const size_t before = figure("stats.active");
  const double start = processor_seconds();
  size_t moves = 0;
  int passes = 0;
  for (; passes < most_passes; ++passes) {
    const size_t moved = by_tarn ? pass_by_tarn() : pass_by_utilization();
    moves += moved;
    if (moved < values / 8 / 1000) break;
  }
  const double seconds = processor_seconds() - start;
  REQUIRE(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0) == 0);
  REQUIRE(mallctl("arena.4096.purge", NULL, NULL, NULL, 0) == 0);
  const size_t after = figure("stats.active");
  for (size_t i = 0; i < values; ++i) {
    for (size_t k = 0; value[i] != NULL && k < length_of[i]; ++k) REQUIRE(value[i][k] == (i & 255));
  }
  printf(
      "{\"values\": %zu, \"active_before\": %zu, \"active_after\": %zu, \"ratio_before\": %.3f, \"ratio_after\": %.3f, "
      "\"moves\": %zu, \"passes\": %d, \"seconds\": %.3f}\n",
      left, before, after, (double)before / (double)left, (double)after / (double)left, moves, passes,
      seconds);
  return (double)after <= 1.25 * (double)left ? 0 : 1;
}
