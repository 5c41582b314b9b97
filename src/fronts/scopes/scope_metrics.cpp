// SPDX-License-Identifier: MIT
// The figures of scopes by their names, as metrics.
#include "fronts/scopes/scope_registry.hpp"
#include "tarn/scope.h"

namespace tarn::scope_registry {
namespace {

using enum metric_kind;
using enum metric_unit;
using figures = tarn_scope_stats;

constexpr metric_of<figures> rows[] = {
    {"tarn_scope_live_scopes", gauge, none, "Scopes of this name that have not ended", &figures::live},
    {"tarn_scope_budget_bytes", gauge, bytes, "Sum of their budgets; 0 if they have none", &figures::limit},
    {"tarn_scope_charged_bytes", gauge, bytes, "Memory that is charged to them", &figures::charged},
    {"tarn_scope_peak_bytes", gauge, bytes, "The most that was charged to one of this name", &figures::peak},
    {"tarn_scope_ended_scopes", counter, none, "Scopes that have ended", &figures::ended},
    {"tarn_scope_failures", counter, none, "Allocations that failed for a budget", &figures::failures},
    {"tarn_scope_survivors", counter, none, "Blocks that outlived their scope", &figures::survivors},
    {"tarn_scope_survivor_bytes", counter, bytes, "Bytes of the blocks that outlived their scope",
     &figures::survivor_bytes},
};
using table = metric_table<rows>;

void visit_metrics(metric_receiver to) {
  visit([](void* p, const figures* f) { table::give(*static_cast<metric_receiver*>(p), f->name, *f); }, &to);
}

}  // namespace

constinit const metric_group metrics = table::group(visit_metrics, "scope");

}  // namespace tarn::scope_registry
