/* SPDX-License-Identifier: MIT
 * results: calls mallctl with each name in each way, right and wrong, and prints what comes back, one line per call. The
 * lines of jemalloc and of libtarn-jemalloc are compared (compare.py). */
#include "jemalloc_calls.h"

static void show(const char* name, const char* way, int result) {
  printf("%s\t%s\t%s\n", name, way, error_name(result));
}

/* In each way that a name of a value of `size` bytes can be read and written. Nothing is written for real. */
static void try_value(const char* name, size_t size) {
  unsigned char old[64];
  size_t length = size;
  show(name, "read", mallctl(name, old, &length, NULL, 0));
  length = size - 1;
  int result = mallctl(name, old, &length, NULL, 0);
  printf("%s\tread into too little\t%s\tlength %zu\n", name, error_name(result), length);
  length = size + 1;
  result = mallctl(name, old, &length, NULL, 0);
  printf("%s\tread into too much\t%s\tlength %zu\n", name, error_name(result), length);
  show(name, "no values", mallctl(name, NULL, NULL, NULL, 0));
  show(name, "room without a length", mallctl(name, old, NULL, NULL, 0));
  length = size;
  show(name, "length without room", mallctl(name, NULL, &length, NULL, 0));
  show(name, "write nothing of a wrong length", mallctl(name, NULL, NULL, NULL, 3));
  unsigned char fresh[64] = {0};
  show(name, "write of a wrong length", mallctl(name, NULL, NULL, fresh, 3));
}

/* Names that can only be read also refuse a value of the right length. */
static void try_read_only(const char* name, size_t size) {
  unsigned char fresh[64] = {0};
  try_value(name, size);
  show(name, "write", mallctl(name, NULL, NULL, fresh, size));
}

/* Names that do something. */
static void try_call(const char* name) {
  unsigned char value[8] = {0};
  size_t length = sizeof value;
  show(name, "call", mallctl(name, NULL, NULL, NULL, 0));
  show(name, "read", mallctl(name, value, &length, NULL, 0));
  show(name, "write", mallctl(name, NULL, NULL, value, sizeof value));
}

static void try_numbers(const char* name, size_t room) {
  size_t mib[8];
  size_t length = room;
  memset(mib, 0xff, sizeof mib);
  int result = mallctlnametomib(name, mib, &length);
  printf("%s\tnumbers, room for %zu\t%s\tlength %zu\n", name, room, error_name(result), length);
  if (result != 0) return;
  size_t value = 0;
  size_t size = sizeof value;
  printf("%s\tby numbers, room for %zu\t%s\n", name, room,
         error_name(mallctlbymib(mib, length, &value, &size, NULL, 0)));
}

int main(void) {
  static const struct {
    const char* name;
    size_t size;
  } read_only[] = {
      {"version", sizeof(char*)},
      {"config.malloc_conf", sizeof(char*)},
      {"opt.abort", 1},
      {"opt.dss", sizeof(char*)},
      {"opt.narenas", 4},
      {"opt.percpu_arena", sizeof(char*)},
      {"opt.background_thread", 1},
      {"opt.dirty_decay_ms", 8},
      {"opt.muzzy_decay_ms", 8},
      {"opt.junk", sizeof(char*)},
      {"opt.zero", 1},
      {"opt.tcache", 1},
      {"opt.tcache_max", 8},
      {"opt.thp", sizeof(char*)},
      {"opt.prof", 1},
      {"thread.allocated", 8},
      {"thread.allocatedp", 8},
      {"thread.deallocated", 8},
      {"thread.deallocatedp", 8},
      {"arenas.narenas", 4},
      {"arenas.page", 8},
      {"arenas.nbins", 4},
      {"arenas.bin.0.size", 8},
      {"arenas.bin.0.nregs", 4},
      {"stats.allocated", 8},
      {"stats.active", 8},
      {"stats.metadata", 8},
      {"stats.resident", 8},
      {"stats.mapped", 8},
      {"stats.retained", 8},
      {"stats.arenas.0.pactive", 8},
      {"stats.arenas.0.pmuzzy", 8},
      {"stats.arenas.0.small.allocated", 8},
      {"stats.arenas.0.large.allocated", 8},
      {"stats.arenas.4096.small.allocated", 8},
      {"stats.arenas.0.bins.0.curregs", 8},
      {"stats.arenas.0.bins.0.curslabs", 8},
      {"stats.arenas.4096.bins.0.curregs", 8},
  };
  for (size_t i = 0; i < sizeof read_only / sizeof *read_only; ++i)
    try_read_only(read_only[i].name, read_only[i].size);

  static const struct {
    const char* name;
    size_t size;
  } values[] = {{"background_thread", 1},     {"max_background_threads", 8}, {"arenas.dirty_decay_ms", 8},
                {"arenas.muzzy_decay_ms", 8}, {"arena.0.dirty_decay_ms", 8}, {"arena.0.muzzy_decay_ms", 8}};
  for (size_t i = 0; i < sizeof values / sizeof *values; ++i) try_value(values[i].name, values[i].size);

  static const char* const calls[] = {"thread.tcache.flush", "arena.0.purge",   "arena.4096.purge",
                                      "arena.0.reset",       "arena.0.destroy", "arena.4096.reset"};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i) try_call(calls[i]);

  static const char* const wrong[] = {"",
                                      ".",
                                      "nothing",
                                      "stats",
                                      "stats.",
                                      ".stats",
                                      "stats.nothing",
                                      "stats.allocated.more",
                                      "stats..allocated",
                                      "arena",
                                      "arena.0",
                                      "arena.x.purge",
                                      "arena.-1.purge",
                                      "arena.5000.purge",
                                      "arena.99999999999999999999.purge",
                                      "arenas.bin.100000.size",
                                      "arenas.bin.x.size",
                                      "stats.arenas.77.pactive",
                                      "stats.arenas.4097.pactive",
                                      "opt.nothing",
                                      "config",
                                      "version.x",
                                      "STATS.allocated",
                                      " stats.allocated"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    size_t value = 0;
    size_t length = sizeof value;
    printf("'%s'\twrong name\t%s\n", wrong[i], error_name(mallctl(wrong[i], &value, &length, NULL, 0)));
  }
  static const char* const numbers[] = {
      "stats.allocated", "arenas.bin.0.size", "stats.arenas.0.bins.3.curregs",
      "arena.0.purge",   "arena.0",           "stats",
      "nothing"};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
    for (size_t room = 0; room <= 7; ++room) try_numbers(numbers[i], room);
  }
  size_t mib[8] = {0};
  size_t length = 8;
  REQUIRE(mallctlnametomib("arenas.bin.0.size", mib, &length) == 0);
  size_t sizes = 0;
  for (size_t i = 0; i < 20; ++i) {
    size_t value = 0;
    size_t size = sizeof value;
    mib[2] = i;
    REQUIRE(mallctlbymib(mib, length, &value, &size, NULL, 0) == 0);
    REQUIRE(value > sizes);
    sizes = value;
  }
  mib[2] = 100000;
  printf("mib\tindex too large\t%s\n", error_name(mallctlbymib(mib, length, NULL, NULL, NULL, 0)));
  mib[0] = 1000;
  printf("mib\tno such subject\t%s\n", error_name(mallctlbymib(mib, length, NULL, NULL, NULL, 0)));
  printf("mib\tempty\t%s\n", error_name(mallctlbymib(mib, 0, NULL, NULL, NULL, 0)));
  return 0;
}
