// SPDX-License-Identifier: MIT
// The figures of recyclers, as metrics.
#include "fronts/recyclers/recycler_registry.hpp"

namespace tarn::recycler_registry {
namespace {

using enum metric_kind;
using enum metric_unit;
using figures = tarn_recycler_stats;

constexpr metric_of<figures> rows[] = {
    {"tarn_recycler_idle_objects", gauge, none, "Constructed objects that wait for their next use",
     &figures::objects},
    {"tarn_recycler_idle_bytes", gauge, bytes, "Memory that these are counted with", &figures::bytes},
    {"tarn_recycler_hits", counter, none, "Objects taken from the own bin of the thread", &figures::hits},
    {"tarn_recycler_victims", counter, none, "Objects taken from the older generation", &figures::victims},
    {"tarn_recycler_stolen", counter, none, "Objects taken from bins of other threads", &figures::stolen},
    {"tarn_recycler_misses", counter, none, "Objects that had to be built", &figures::misses},
};

}  // namespace

constinit const metric_group metrics = metric_table<rows>::group_of<tarn_recycler_visit>("recycler");

}  // namespace tarn::recycler_registry
