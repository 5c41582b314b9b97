// SPDX-License-Identifier: MIT
// opt.*: what is in effect in tarn for each option of jemalloc (conf_options.cpp).
#include <array>
#include <cstdint>

#include "jemalloc/conf.hpp"
#include "jemalloc/tree.hpp"

namespace tarn::jemalloc {
namespace {

// The handler of a name of this table, by the name: the options lie in another file, whose addresses are not constant
// here.
const conf_option* option_of(const request& r) {
  const auto& name = *static_cast<const std::string_view*>(r.argument);
  for (std::size_t i = 0; i < conf_options.count; ++i) {
    if (conf_options.options[i].name == name) return &conf_options.options[i];
  }
  return nullptr;
}

int handle(const request& r) {
  const conf_option* const option = option_of(r);
  if (option == nullptr || !option->has_name) return ENOENT;
  switch (option->type) {
    case conf_type::flag:
      return give_only(r, option->value() != 0);
    case conf_type::number:
      return give_only(r, static_cast<unsigned>(option->value()));
    case conf_type::size:
      return give_only(r, static_cast<std::size_t>(option->value()));
    case conf_type::signed_size:
      return give_only(r, static_cast<std::ptrdiff_t>(option->value()));
    case conf_type::signed_64:
      return give_only(r, option->value());
    case conf_type::text:
      return give_only(r, option->text());
  }
  return ENOENT;
}

// Those that jemalloc's manual lists. The options of its profiler give ENOENT.
constexpr std::string_view names[] = {
    "abort",
    "abort_conf",
    "cache_oblivious",
    "confirm_conf",
    "metadata_thp",
    "retain",
    "dss",
    "narenas",
    "percpu_arena",
    "oversize_threshold",
    "background_thread",
    "max_background_threads",
    "dirty_decay_ms",
    "muzzy_decay_ms",
    "lg_extent_max_active_fit",
    "stats_print",
    "stats_print_opts",
    "stats_interval",
    "stats_interval_opts",
    "junk",
    "zero",
    "tcache",
    "tcache_max",
    "thp",
    "zero_realloc",
    "trust_madvise",
    "prof",
    "prof_prefix",
    "prof_active",
    "prof_thread_active_init",
    "lg_prof_sample",
    "prof_accum",
    "lg_prof_interval",
    "prof_gdump",
    "prof_final",
    "prof_leak",
    "prof_leak_error",
    "utrace",
    "xmalloc",
};
constexpr std::size_t count = sizeof names / sizeof *names;

constexpr auto make_nodes() {
  std::array<node, count> all{};
  for (std::size_t i = 0; i < count; ++i) all[i] = leaf(names[i], handle, &names[i]);
  return all;
}
constexpr auto nodes = make_nodes();

}  // namespace

constexpr node_list opt_names{nodes.data(), count};

}  // namespace tarn::jemalloc
