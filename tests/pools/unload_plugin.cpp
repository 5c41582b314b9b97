// SPDX-License-Identifier: MIT
// A library that is loaded and unloaded while the program's threads live: uses a pool of its own type, and one that the
// program has, too.
#include "unload_plugin.hpp"

#include "tarn/object_pool.hpp"

struct of_the_plugin_alone {
  std::uint64_t words[5] = {1, 2, 3, 4, 5};
};

extern "C" __attribute__((visibility("default"))) bool plugin_run(plugin_work* work) {
  constexpr auto own = tarn::pool_of<of_the_plugin_alone>();
  constexpr auto shared = tarn::pool_of<shared_by_both>();
  of_the_plugin_alone* kept[64];
  for (auto*& each : kept) each = own.create();
  bool whole = true;
  for (unsigned i = 0; i < work->count; ++i) {
    whole = whole && work->in[i]->again == ~work->in[i]->number;
    shared.destroy(work->in[i]);
    work->out[i] = shared.create(i);
  }
  tarn::object_pool<of_the_plugin_alone> instance({.name = "an instance of the plugin"});
  for (int i = 0; i < 300; ++i) instance.destroy(instance.create());
  for (auto* each : kept) {
    whole = whole && each->words[4] == 5;
    own.destroy(each);
  }
  return whole;
}
