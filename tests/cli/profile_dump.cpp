// SPDX-License-Identifier: MIT
// Prints a profile as one JSON object, for the tests of `tarn profile`.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "profiler/analyze/site_label.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/figure_columns.hpp"

using namespace tarn::profiler;

namespace {

nlohmann::json as_json(const profile& p, const site& one) {
  nlohmann::json figures;
  for (const figure_column& each : figure_columns) figures[each.name] = one.figures.*each.member;
  nlohmann::json frames = nlohmann::json::array();
  for (const source_frame& frame : frames_of(p, one.stack)) frames.push_back(frame.function);
  nlohmann::json sizes = nlohmann::json::array();
  for (const size_count& each : one.sizes) sizes.push_back({each.size, each.count, each.exact});
  return {{"label", site_label(p, one).function},
          {"type", one.type},
          {"frames", frames},
          {"figures", figures},
          {"sizes", sizes},
          {"pairs", one.threads.size()}};
}

nlohmann::json events_in(const char* path) {
  std::size_t rows = 0;
  std::size_t mallocs = 0;
  std::size_t frees = 0;
  const auto take = [&](table&& chunk) {
    rows += chunk.rows;
    for (const std::uint64_t kind : chunk.whole("kind")) {
      mallocs += kind == 1 ? 1 : 0;
      frees += kind == 5 ? 1 : 0;
    }
  };
  read_tables(path, take, [](std::string_view name) { return name == "events"; });
  return {{"rows", rows}, {"malloc", mallocs}, {"free", frees}};
}

double most_resident(const profile& p) {
  double most = 0;
  for (const counter_row& row : p.counters) most = std::max(most, row.resident_bytes);
  return most;
}

}  // namespace

int main(int count, char** words) try {
  if (count != 2) return 2;
  const profile p = load_profile(words[1]);
  nlohmann::json sites = nlohmann::json::array();
  for (const site& one : p.sites) sites.push_back(as_json(p, one));
  nlohmann::json threads = nlohmann::json::array();
  for (const thread_info& one : p.threads) threads.push_back(one.name);
  nlohmann::json modules = nlohmann::json::array();
  for (const module_info& one : p.modules)
    modules.push_back({{"path", one.path}, {"build_id", one.build_id}});
  const nlohmann::json all = {{"meta", p.meta},
                              {"sites", sites},
                              {"threads", threads},
                              {"modules", modules},
                              {"damage", p.damage},
                              {"counters", p.counters.size()},
                              {"most_resident", most_resident(p)},
                              {"other_faults", p.other_faults},
                              {"unseen_faults", p.unseen_faults},
                              {"lost_events", p.lost_events},
                              {"unwind_checked", p.unwind_checked},
                              {"unwind_wrong", p.unwind_error_rate},
                              {"malloc_pair", p.prices.malloc_pair},
                              {"events", events_in(words[1])}};
  std::puts(all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
