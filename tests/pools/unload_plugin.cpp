// SPDX-License-Identifier: MIT
// The plugin of the program `unload`: it uses a pool of a type of its own, one of a type that the program also uses,
// and an object_pool.
#include "unload_plugin.hpp"

#include "tarn/pool.hpp"

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
