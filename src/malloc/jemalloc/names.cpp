// SPDX-License-Identifier: MIT
// The root of the tree of names, and the names directly below it. Only names that programs ask for exist
// (docs/design/0029-jemalloc-names.md); every other one is unknown (ENOENT).
#include "malloc/jemalloc/figures.hpp"
#include "malloc/jemalloc/identity.hpp"
#include "malloc/jemalloc/settings.hpp"
#include "malloc/jemalloc/tree.hpp"

namespace tarn::jemalloc {
namespace {

int handle_version(const request& r) { return give_only(r, version); }

// A write makes the statistics those of this moment, whatever is written.
int handle_epoch(const request& r) {
  std::uint64_t ignored = 0;
  if (const int wrong = take(r, ignored)) return wrong;
  if (r.fresh != nullptr) refresh();
  return give(r, from_figures([](const figures& f) { return f.epoch; }));
}

int handle_background_thread(const request& r) {
  const bool before = has_background_thread();
  bool wanted = before;
  if (r.fresh != nullptr && r.fresh_length != sizeof(bool)) return EINVAL;
  if (const int wrong = give(r, before)) return wrong;
  if (const int wrong = take(r, wanted)) return wrong;
  return wanted == before || set_background_thread(wanted) ? 0 : EFAULT;
}

// There is one such thread at most.
int handle_max_background_threads(const request& r) {
  constexpr std::size_t most = 1;
  std::size_t wanted = most;
  if (r.fresh != nullptr && r.fresh_length != sizeof wanted) return EINVAL;
  if (const int wrong = give(r, most)) return wrong;
  if (const int wrong = take(r, wanted)) return wrong;
  return wanted == most ? 0 : EINVAL;
}

// Options compiled into the library: none.
int handle_compiled_conf(const request& r) {
  const char* const none = "";
  return give_only(r, none);
}

constexpr node config_nodes[] = {leaf("malloc_conf", handle_compiled_conf)};
constexpr node_list config_names = list_of(config_nodes);

constexpr node root_nodes[] = {
    leaf("version", handle_version),
    leaf("epoch", handle_epoch),
    leaf("background_thread", handle_background_thread),
    leaf("max_background_threads", handle_max_background_threads),
    inner("thread", thread_names),
    inner("config", config_names),
    inner("opt", opt_names),
    inner("tcache", tcache_names),
    indexed("arena", arena_names, is_arena_index),
    inner("arenas", arenas_names),
    inner("stats", stats_names),
};
constexpr node_list root_list = list_of(root_nodes);

}  // namespace

constexpr node root = inner("", root_list);

}  // namespace tarn::jemalloc
