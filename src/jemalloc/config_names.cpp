// SPDX-License-Identifier: MIT
// config.*: how the library was built.
#include "jemalloc/tree.hpp"

namespace tarn::jemalloc {
namespace {

constexpr bool yes = true;
constexpr bool no = false;

int handle_flag(const request& r) { return give_only(r, *static_cast<const bool*>(r.argument)); }
// Options compiled into the library: none.
int handle_text(const request& r) {
  const char* const none = "";
  return give_only(r, none);
}

constexpr node nodes[] = {
    leaf("cache_oblivious", handle_flag, &no),
    leaf("debug", handle_flag, &no),
    leaf("fill", handle_flag, &no),
    leaf("lazy_lock", handle_flag, &no),
    leaf("malloc_conf", handle_text),
    leaf("opt_safety_checks", handle_flag, &yes),
    leaf("prof", handle_flag, &no),
    leaf("prof_libgcc", handle_flag, &no),
    leaf("prof_libunwind", handle_flag, &no),
    leaf("stats", handle_flag, &yes),
    leaf("utrace", handle_flag, &no),
    leaf("xmalloc", handle_flag, &no),
};

}  // namespace

constexpr node_list config_names = list_of(nodes);

}  // namespace tarn::jemalloc
