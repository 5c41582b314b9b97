/* SPDX-License-Identifier: MIT */
/* tarn/pool.h from C11: pools, a recycler and a buffer pool do what they are asked for; and programs that were compiled with shorter
 * or longer structures get what both sides know. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tarn/pool.h"

#define CHECK(holds)                                                      \
  do {                                                                    \
    if (!(holds)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #holds); \
      exit(1);                                                            \
    }                                                                     \
  } while (0)

struct order {
  double price;
  int quantity;
};

static tarn_pool_options options_of(const char* name) {
  tarn_pool_options options = TARN_POOL_OPTIONS;
  options.object_size = sizeof(struct order);
  options.alignment = _Alignof(struct order);
  options.name = name;
  options.name_length = strlen(name);
  return options;
}

static void a_pool(tarn_pool* pool) {
  enum { count = 1000 };
  static struct order* orders[count];
  CHECK(pool != NULL);
  for (int i = 0; i < count; ++i) {
    orders[i] = tarn_pool_allocate(pool);
    CHECK(orders[i] != NULL && tarn_pool_of(orders[i]) == pool);
    orders[i]->quantity = i;
  }
  tarn_pool_stats stats;
  tarn_pool_get_stats(pool, &stats, sizeof stats);
  CHECK(stats.live == count && stats.object_bytes == sizeof(struct order));
  for (int i = 0; i < count; ++i) {
    CHECK(orders[i]->quantity == i);
    tarn_pool_deallocate(orders[i]);
  }
  tarn_pool_get_stats(pool, &stats, sizeof stats);
  CHECK(stats.live == 0 && stats.peak >= count);
  CHECK(tarn_pool_trim(pool, NULL) > 0);
}

static void pools(void) {
  tarn_pool_options options = options_of("orders");
  tarn_pool* const own = tarn_pool_create(&options);
  a_pool(own);
  CHECK(tarn_pool_destroy(own) == 0);

  options.checked = 1;
  tarn_pool* const checked = tarn_pool_create(&options);
  a_pool(checked);
  CHECK(tarn_pool_destroy(checked) == 0);

  options.checked = 0;
  options.single_thread = 1;
  tarn_pool* const single = tarn_pool_create(&options);
  a_pool(single);
  CHECK(tarn_pool_destroy(single) == 0);

  options.single_thread = 0;
  tarn_pool* const shared = tarn_pool_shared(&options);
  CHECK(tarn_pool_shared(&options) == shared);
  a_pool(shared);

  options.limit = 1 << 16;
  tarn_pool* const bounded = tarn_pool_create(&options);
  size_t many = 0;
  while (tarn_pool_allocate(bounded) != NULL) ++many;
  CHECK(errno == ENOMEM && many > 0 && many * sizeof(struct order) <= options.limit);
  CHECK(tarn_pool_release(bounded) <= options.limit);
}

/* Of another version of the header. */
static void sizes(void) {
  struct {
    tarn_pool_options known;
    size_t later;
  } longer = {options_of("longer"), 1};
  longer.known.size = sizeof longer;
  tarn_pool* const pool = tarn_pool_create(&longer.known);
  CHECK(pool != NULL);

  tarn_pool_options shorter = options_of("shorter");
  shorter.limit = 1; /* not the program's, where `size` ends before it */
  shorter.size = offsetof(tarn_pool_options, objects_per_span);
  tarn_pool* const other = tarn_pool_create(&shorter);
  CHECK(other != NULL);
  void* const object = tarn_pool_allocate(other);
  CHECK(object != NULL);
  tarn_pool_deallocate(object);
  CHECK(tarn_pool_destroy(other) == 0);

  shorter.size = 0;
  errno = 0;
  CHECK(tarn_pool_create(&shorter) == NULL && errno == EINVAL);
  errno = 0;
  CHECK(tarn_pool_create(NULL) == NULL && errno == EINVAL);

  struct {
    tarn_pool_stats known;
    uint64_t later;
  } stats;
  memset(&stats, 0x55, sizeof stats);
  tarn_pool_get_stats(pool, &stats.known, sizeof stats);
  CHECK(stats.known.live == 0 && stats.later == 0);
  memset(&stats, 0x55, sizeof stats);
  tarn_pool_get_stats(pool, &stats.known, sizeof(uint64_t));
  CHECK(stats.known.live == 0 && stats.known.peak == 0x5555555555555555U);
  CHECK(tarn_pool_destroy(pool) == 0);
}

static void destroy_text(void* context, void* object) {
  ++*(int*)context;
  free(object);
}

static void a_recycler(void) {
  int destroyed = 0;
  tarn_recycler_options options = TARN_RECYCLER_OPTIONS;
  errno = 0;
  CHECK(tarn_recycler_create(&options) == NULL && errno == EINVAL);
  options.destroy = destroy_text;
  options.context = &destroyed;
  options.cycle_ms = 0;
  options.limit_objects = 1;
  tarn_recycler* const texts = tarn_recycler_create(&options);
  CHECK(texts != NULL && tarn_recycler_get(texts) == NULL);
  void* const one = malloc(100);
  void* const two = malloc(100);
  CHECK(tarn_recycler_give_back(texts, one, 100));
  CHECK(!tarn_recycler_give_back(texts, two, 100));
  free(two);
  CHECK(tarn_recycler_get(texts) == one);
  CHECK(tarn_recycler_give_back(texts, one, 100));
  tarn_recycler_stats stats;
  tarn_recycler_get_stats(texts, &stats, sizeof stats);
  CHECK(stats.gets == 2 && stats.misses == 1 && stats.over_limit == 1 && stats.objects == 1);
  CHECK(tarn_recycler_trim(texts) == 1 && destroyed == 1);
  tarn_recycler_close(texts);
  tarn_recycler_free(texts);
}

static void buffers(void) {
  tarn_buffer_options options = TARN_BUFFER_OPTIONS;
  options.zeroed = 1;
  tarn_buffer_pool* const pool = tarn_buffer_pool_create(&options);
  CHECK(pool != NULL);
  size_t capacity = 0;
  char* const buffer = tarn_buffer_get(pool, 1 << 20, &capacity);
  CHECK(buffer != NULL && capacity >= 1 << 20 && buffer[1000] == 0);
  size_t found = 0;
  CHECK(tarn_buffer_pool_of(buffer, &found) == pool && found == capacity);
  tarn_buffer_give_back(pool, buffer);
  tarn_buffer_stats stats;
  tarn_buffer_get_stats(pool, &stats, sizeof stats);
  CHECK(stats.gets == 1 && stats.kept == 1 && stats.live == 0);
  CHECK(tarn_buffer_trim(pool) >= 1 << 20);
  tarn_buffer_pool_destroy(pool);
  CHECK(tarn_buffer_pool_shared() == tarn_buffer_pool_shared());
  options.alignment = 3;
  errno = 0;
  CHECK(tarn_buffer_pool_create(&options) == NULL && errno == EINVAL);
}

int main(void) {
  pools();
  sizes();
  a_recycler();
  buffers();
  return 0;
}
