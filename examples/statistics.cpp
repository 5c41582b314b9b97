// SPDX-License-Identifier: MIT
// statistics: what a program can ask tarn while it runs: the heap as a whole, each pool by type, and the options in
// effect; and how it gives idle memory back to the system now.
#include <tarn/malloc.h>
#include <tarn/pool.hpp>
#include <tarn/process.hpp>

#include <cstdio>
#include <cstring>
#include <vector>

namespace {

struct connection {
  char state[200];
};

}  // namespace

int main() {
  tarn::object_pool<connection> connections({.name = "connections"});
  std::vector<connection*> open;
  for (int i = 0; i < 1000; ++i) open.push_back(connections.create());

  for (const tarn::named_pool_stats& pool : tarn::pools())
    std::printf("pool %s: %zu live objects of %zu bytes\n", pool.name.c_str(), pool.stats.live,
                pool.stats.object_bytes);

  void* const block = tarn_malloc(32 << 20);
  std::memset(block, 1, 32 << 20);
  tarn_stats stats{};
  tarn_get_stats(&stats);
  std::printf("large blocks: %llu MiB\n", static_cast<unsigned long long>(stats.large >> 20));
  tarn_free(block);
  std::printf("given back by trim: %s\n", tarn::trim() >= (32 << 20) ? "all of it" : "not all of it");

  tarn_option option{};
  for (std::size_t i = 0; tarn_option_at(i, &option) == 0; ++i) {
    if (std::strcmp(option.name, "decay_ms") == 0) std::printf("decay_ms is %s\n", option.value);
  }
  if (tarn_set_option("decay_ms", "soon") != 0) std::printf("\"soon\" is no value of decay_ms\n");

  for (connection* const one : open) connections.destroy(one);
  std::printf("live connections at the end: %zu\n", connections.stats().live);
}
