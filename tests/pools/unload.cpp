// SPDX-License-Identifier: MIT
// A plugin with pools is loaded, used by several threads and unloaded in a loop. Nothing crashes, memory does not grow,
// objects made by the plugin can be destroyed afterwards, and its pool's statistics stay readable.
#include <atomic>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "program.hpp"
#include "unload_plugin.hpp"

namespace {

constexpr unsigned threads = 3;
constexpr unsigned count = 300;
constexpr int cycles = 500 / pools_test::slowdown;

constexpr auto pool = tarn::pool_of<shared_by_both>();

std::size_t pools_of_the_plugin() {
  std::size_t found = 0;
  for (const tarn::named_pool_stats& each : tarn::pools()) {
    if (each.name.find("of_the_plugin_alone") == std::string::npos) continue;
    ++found;
    TARN_CHECK(each.stats.live == 0, "%zu objects of the unloaded plugin are live", each.stats.live);
  }
  return found;
}

}  // namespace

int main(int /*count*/, char** arguments) {
  guarantee::start();
  guarantee::need_ordinary_pages();
  std::string path = arguments[0];
  path = path.substr(0, path.rfind('/') + 1) + "pools_plugin.so";

  void* library = nullptr;
  plugin_function run = nullptr;
  std::barrier step(threads + 1);
  std::atomic<bool> whole{true};
  std::atomic<bool> stop{false};
  std::vector<std::jthread> workers;
  for (unsigned t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      shared_by_both* in[count];
      shared_by_both* out[count];
      for (;;) {
        for (unsigned i = 0; i < count; ++i) in[i] = pool.create(i);
        step.arrive_and_wait();  // loaded
        if (stop) break;
        plugin_work work{in, out, count};
        if (!run(&work)) whole = false;
        step.arrive_and_wait();  // used
        step.arrive_and_wait();  // unloaded
        for (shared_by_both* each : out) {
          if (each->again != ~each->number) whole = false;
          pool.destroy(each);
        }
      }
      for (shared_by_both* each : in) pool.destroy(each);
    });
  }

  std::size_t before = 0;
  std::size_t unloaded_cycles = 0;
  for (int cycle = 0; cycle < cycles; ++cycle) {
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    TARN_CHECK(library != nullptr, "%s", dlerror());
    run = reinterpret_cast<plugin_function>(dlsym(library, "plugin_run"));
    TARN_CHECK(run != nullptr, "%s", dlerror());
    step.arrive_and_wait();
    step.arrive_and_wait();
    TARN_CHECK(dlclose(library) == 0, "%s", dlerror());
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD) == nullptr) ++unloaded_cycles;
    step.arrive_and_wait();
    TARN_CHECK(whole, "an object that passed through the plugin is damaged");
    TARN_CHECK(pools_of_the_plugin() == 1, "there is not one pool of the plugin's type, but %zu",
               pools_of_the_plugin());
    if (cycle == cycles / 5) before = guarantee::rss_bytes();
  }
  stop = true;
  step.arrive_and_wait();
  workers.clear();
  TARN_CHECK(unloaded_cycles == static_cast<std::size_t>(cycles) || pools_test::under_asan,
             "the plugin was unloaded in %zu cycles only", unloaded_cycles);
  const std::size_t grown = guarantee::growth(before, guarantee::rss_bytes());
  guarantee::measured("%zu bytes of RSS in %d cycles", grown, cycles);
  TARN_CHECK(pool.stats().live == 0, "%zu objects are live after all are gone", pool.stats().live);
  if (!pools_test::measurable) return 0;
  guarantee::need_own_memory_figures();
  TARN_CHECK(grown < pools_test::mib, "%d cycles took %zu bytes", cycles, grown);
}
