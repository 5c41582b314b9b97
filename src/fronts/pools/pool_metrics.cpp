// SPDX-License-Identifier: MIT
// The figures of typed pools, as metrics.
#include "fronts/pools/pool_registry.hpp"

namespace tarn::pool_registry {
namespace {

using enum metric_kind;
using enum metric_unit;
using figures = tarn_pool_stats;

constexpr metric_of<figures> rows[] = {
    {"tarn_pool_live_objects", gauge, none, "Objects of the typed pool in the hands of the program",
     &figures::live},
    {"tarn_pool_peak_objects", gauge, none, "Upper bound of the most live objects at once", &figures::peak},
    {"tarn_pool_bytes", gauge, bytes, "Memory of the pool", &figures::bytes},
    {"tarn_pool_cached_objects", gauge, none, "Free slots in magazines", &figures::cached},
    {"tarn_pool_hits", counter, none, "Allocations that magazines could serve", &figures::hits},
    {"tarn_pool_refills", counter, none, "Allocations that filled a magazine", &figures::refills},
};

}  // namespace

constinit const metric_group metrics = metric_table<rows>::group_of<tarn_pool_visit>("pool");

}  // namespace tarn::pool_registry
