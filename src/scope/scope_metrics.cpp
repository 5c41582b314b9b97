// SPDX-License-Identifier: MIT
// The figures of scopes by their names, as metrics.
#include <iterator>

#include "scope/scope_registry.hpp"
#include "tarn/scope.h"

namespace tarn::scope_registry {
namespace {

struct figure {
  metric shown;
  std::uint64_t tarn_scope_stats::*value;
};

constexpr auto gauge = metric_kind::gauge;
constexpr auto counter = metric_kind::counter;
constexpr auto bytes = metric_unit::bytes;
constexpr auto none = metric_unit::none;

constexpr figure figures[] = {
    {{"tarn_scope_live_scopes", gauge, none, "Scopes of this name that have not ended"},
     &tarn_scope_stats::live},
    {{"tarn_scope_budget_bytes", gauge, bytes, "Sum of their budgets; 0 if they have none"},
     &tarn_scope_stats::budget},
    {{"tarn_scope_charged_bytes", gauge, bytes, "Memory that is charged to them"},
     &tarn_scope_stats::charged},
    {{"tarn_scope_peak_bytes", gauge, bytes, "The most that was charged to one of this name"},
     &tarn_scope_stats::peak},
    {{"tarn_scope_ended_scopes", counter, none, "Scopes that have ended"}, &tarn_scope_stats::ended},
    {{"tarn_scope_failures", counter, none, "Allocations that failed for a budget"},
     &tarn_scope_stats::failures},
    {{"tarn_scope_survivors", counter, none, "Blocks that outlived their scope"},
     &tarn_scope_stats::survivors},
    {{"tarn_scope_survivor_bytes", counter, bytes, "Bytes of the blocks that outlived their scope"},
     &tarn_scope_stats::survivor_bytes},
};

constexpr auto shown_of_figures() {
  struct {
    metric all[std::size(figures)];
  } out{};
  for (std::size_t i = 0; i < std::size(figures); ++i) out.all[i] = figures[i].shown;
  return out;
}
constexpr auto shown = shown_of_figures();

void visit_metrics(metric_receiver receive, void* context) {
  struct target {
    metric_receiver receive;
    void* context;
  } to{receive, context};
  visit(
      [](void* p, const tarn_scope_stats* stats) {
        std::uint64_t values[std::size(figures)];
        for (std::size_t i = 0; i < std::size(figures); ++i) values[i] = stats->*figures[i].value;
        const target& t = *static_cast<const target*>(p);
        t.receive(t.context, stats->name, 0, values);
      },
      &to);
}

}  // namespace

constinit const metric_group metrics{"scope", nullptr, shown.all, std::size(shown.all), visit_metrics};

}  // namespace tarn::scope_registry
