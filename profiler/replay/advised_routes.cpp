// SPDX-License-Identifier: MIT
// The pools that a piece of advice would serve blocks from, as routes of a replay.
#include "profiler/replay/trace.hpp"

namespace tarn::profiler {

void add_routes(trace_settings& settings, const profile& p, const std::vector<advice>& all) {
  settings.routes.assign(1, {});
  settings.route_of_site.assign(p.sites.size(), 0);
  for (const advice& one : all) {
    replay_route route;
    if (one.kind == advice_kind::typed_pool || one.kind == advice_kind::object_pool) {
      route.kind = route_kind::pool;
      for (const size_count& each : p.sites[one.site].sizes) {
        if (each.exact && route.size == 0) route.size = each.size;
      }
    } else if (one.kind == advice_kind::buffer_pool) {
      route.kind = route_kind::buffers;
    } else if (one.kind == advice_kind::arena) {
      route.kind = route_kind::arena;
    }
    const bool possible =
        route.kind != route_kind::heap && (route.kind != route_kind::pool || route.size != 0);
    if (!possible || settings.routes.size() == most_routes) continue;
    const auto number = static_cast<std::uint8_t>(settings.routes.size());
    bool used = false;
    for (const std::uint32_t site : one.sites) {
      if (settings.route_of_site[site] != 0) continue;
      settings.route_of_site[site] = number;
      used = true;
    }
    if (used) settings.routes.push_back(route);
  }
}

}  // namespace tarn::profiler
