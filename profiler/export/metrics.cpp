// SPDX-License-Identifier: MIT
#include "profiler/export/metrics.hpp"

#include <algorithm>
#include <array>

#include "profiler/model/known_meta.hpp"

namespace tarn::profiler {

namespace {

template <double site_figures::*Member>
double figure(const profile&, const site_figures& figures) {
  return figures.*Member;
}

template <double site_figures::*Member>
double variance(const profile&, const site_figures& figures) {
  return figures.*Member;
}

template <double (*Of)(const site_figures&)>
double variance(const profile&, const site_figures& figures) {
  return Of(figures);
}

double malloc_bias(const profile& p, const site_figures& figures) { return cost_of(p, figures).malloc_bias; }

constexpr std::array<metric, metric_count> all = {
    metric{"cost", base_unit::ns, "malloc, free and the kernel's work for their memory",
           [](const profile& p, const site_figures& f) { return cost_of(p, f).total(); },
           [](const profile& p, const site_figures& f) { return cost_of(p, f).variance(); }, malloc_bias},
    metric{"malloc", base_unit::ns, "time in malloc and free",
           [](const profile& p, const site_figures& f) { return cost_of(p, f).malloc_ns; },
           [](const profile& p, const site_figures& f) { return cost_of(p, f).malloc_variance; },
           malloc_bias},
    metric{"hidden", base_unit::ns,
           "time that a timer around malloc and free misses: first touches, unmapping",
           [](const profile& p, const site_figures& f) { return cost_of(p, f).hidden(); },
           [](const profile& p, const site_figures& f) { return cost_of(p, f).kernel_variance; }},
    metric{"faults", base_unit::count, "page faults", figure<&site_figures::faults>,
           variance<&site_figures::faults_variance>},
    metric{"allocations", base_unit::count, "blocks requested", figure<&site_figures::allocations>,
           variance<&site_figures::allocations_variance>},
    metric{"bytes", base_unit::bytes, "bytes requested", figure<&site_figures::bytes>,
           variance<&site_figures::bytes_variance>},
    metric{"live", base_unit::count, "live blocks at the end", figure<&site_figures::live>,
           variance<live_variance>},
    metric{"live_bytes", base_unit::bytes, "live bytes at the end", figure<&site_figures::live_bytes>,
           variance<live_bytes_variance>},
    metric{"peak", base_unit::bytes, "live bytes at the program's peak", figure<&site_figures::bytes_at_peak>,
           variance<peak_variance>},
};

}  // namespace

std::span<const metric> metrics() { return all; }

bool is_known(const profile& p, const metric& what) {
  if (const nlohmann::json* const known = member_in(p.meta, "only_known"))
    return std::find(known->begin(), known->end(), what.name) != known->end();
  return has_costs(p) || what.name == "allocations" || what.name == "bytes" || what.name == "live" ||
         what.name == "live_bytes";
}

const metric* find_metric(std::string_view name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [name](const metric& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string metric_names() {
  std::string names;
  for (const metric& each : all) {
    if (!names.empty()) names += ", ";
    names += each.name;
  }
  return names;
}

std::string_view metric_row::label() const noexcept {
  return faults == outside::elsewhere ? "[faults outside of allocated memory]"
                                      : "[faults that only the kernel counted]";
}

site_figures metric_row::figures(const profile& p) const {
  if (who != nullptr) return who->figures;
  const bool are_seen = faults == outside::elsewhere;
  site_figures of_nobody;
  of_nobody.faults = are_seen ? p.other_faults : p.unseen_faults;
  of_nobody.fault_pages = of_nobody.faults;
  of_nobody.faults_variance = are_seen ? other_faults_variance(p) : 0;
  return of_nobody;
}

std::vector<source_frame> metric_row::frames(const profile& p) const {
  if (who == nullptr) return {{std::string(label()), {}, 0, false}};
  std::vector<source_frame> path = frames_of(p, who->stack);
  if (path.empty()) path.push_back({"[no call path]", {}, 0, false});
  return path;
}

std::vector<metric_row> metric_rows(const profile& p) {
  std::vector<metric_row> rows;
  rows.reserve(p.sites.size() + 2);
  for (const site& each : p.sites) rows.push_back({&each});
  if (p.other_faults > 0) rows.push_back({nullptr, metric_row::outside::elsewhere});
  if (p.unseen_faults > 0) rows.push_back({nullptr, metric_row::outside::unseen});
  return rows;
}

double sum_of(const profile& p, const metric& what) {
  double sum = 0;
  for (const metric_row& row : metric_rows(p)) sum += what.of(p, row.figures(p));
  return sum;
}

double margin_of(const profile& p, const metric& what, const site_figures& figures) {
  if (what.variance == nullptr) return 0;
  const double bias = what.bias == nullptr ? 0 : what.bias(p, figures);
  return margin_of(what.variance(p, figures) + bias * bias);
}

double margin_of_sum(const profile& p, const metric& what) {
  return margin_of(p, what, sum_with_variances(p));
}

}  // namespace tarn::profiler
