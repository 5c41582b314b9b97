/* SPDX-License-Identifier: MIT
 * defragment: fills a cache with values of many sizes, drops most of them, and moves the rest out of sparse memory by
 * tarn_would_move and tarn_move. Prints the bytes of the values that are left, active memory before and after, the moves,
 * and the time. Ends with 1 if a value is damaged or active memory is still more than 1.25 times the values. */
#include <time.h>

#include "jemalloc_calls.h"

enum { values = 400000, most_passes = 12 };
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

static int (*tarn_would_move)(const void*, double);
static void* (*tarn_move)(void*);

static size_t move_once(void) {
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

int main(void) {
  *(void**)&tarn_would_move = dlsym(RTLD_DEFAULT, "tarn_would_move");
  *(void**)&tarn_move = dlsym(RTLD_DEFAULT, "tarn_move");
  REQUIRE(tarn_would_move != NULL && tarn_move != NULL);
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
    const size_t moved = move_once();
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
