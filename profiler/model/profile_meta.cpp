// SPDX-License-Identifier: MIT
// set_meta: the members of a profile that its table "meta" has.
#include <algorithm>
#include <string>
#include <utility>

#include "profiler/model/known_meta.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/model/table_rows.hpp"

namespace tarn::profiler {

namespace {

double figure_in(const nlohmann::json& object, const char* name) {
  return figure_of(number_in(object, name));
}

// Sets the members of `figures` if the object has a member `name` that is an object.
template <class Figures>
void read_figures(const nlohmann::json& object, const char* name, Figures& figures) {
  const nlohmann::json* found = member_in(object, name);
  if (found == nullptr || !found->is_object()) return;
  columns_of(&figures, [&](const char* key, auto member) { figures.*member = figure_in(*found, key); });
}

}  // namespace

bool has_costs(const profile& p) {
  return !flag_in(p.meta, "black_box") && member_in(p.meta, "only_known") == nullptr;
}

const char* origin_of(const profile& p) {
  if (!flag_in(p.meta, "black_box")) return "pprof";
  return flag_in(p.meta, "core_file") ? "a core file" : "a black box";
}

void set_meta(profile& p, nlohmann::json meta) {
  p.meta = std::move(meta);
  const std::string mode = text_in(p.meta, "mode");
  p.mode = mode == "full"     ? profile_mode::full
           : mode == "faults" ? profile_mode::faults
                              : profile_mode::sample;
  read_figures(p.meta, "prices", p.prices);
  p.malloc_time = {};
  read_figures(p.meta, "malloc_time", p.malloc_time);
  p.other_faults = figure_in(p.meta, "other_faults");
  p.unseen_faults = figure_in(p.meta, "unseen_faults");
  p.recorder_ns = figure_in(p.meta, "recorder_ns");
  p.lost_events = figure_in(p.meta, "lost_events");
  p.unwind_checked = figure_in(p.meta, "unwind_checked");
  const double wrong = figure_in(p.meta, "unwind_wrong");
  p.unwind_error_rate = p.unwind_checked > 0 ? std::min(1.0, wrong / p.unwind_checked) : 0;
}

}  // namespace tarn::profiler
