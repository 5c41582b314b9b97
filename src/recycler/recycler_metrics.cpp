// SPDX-License-Identifier: MIT
// The figures of recyclers, as metrics.
#include "recycler/recycler_registry.hpp"

#include <iterator>

namespace tarn::recycler_registry {
namespace {

using figure = std::uint64_t tarn_recycler_figures::*;

constexpr auto gauge = metric_kind::gauge;
constexpr auto counter = metric_kind::counter;
constexpr auto bytes = metric_unit::bytes;
constexpr auto none = metric_unit::none;

constexpr metric shown[] = {
    {"tarn_recycler_idle_objects", gauge, none, "Constructed objects that wait for their next use"},
    {"tarn_recycler_idle_bytes", gauge, bytes, "Memory that these are counted with"},
    {"tarn_recycler_hits", counter, none, "Objects taken from the own bin of the thread"},
    {"tarn_recycler_victims", counter, none, "Objects taken from the older generation"},
    {"tarn_recycler_stolen", counter, none, "Objects taken from bins of other threads"},
    {"tarn_recycler_misses", counter, none, "Objects that had to be built"},
};
constexpr figure figures[] = {
    &tarn_recycler_figures::objects, &tarn_recycler_figures::bytes,  &tarn_recycler_figures::hits,
    &tarn_recycler_figures::victims, &tarn_recycler_figures::stolen, &tarn_recycler_figures::misses,
};
static_assert(std::size(shown) == std::size(figures));

void visit(metric_receiver receive, void* context) {
  struct target {
    metric_receiver receive;
    void* context;
  } to{receive, context};
  tarn_recycler_visit(
      [](void* p, const char* name, const tarn_recycler_figures* from) {
        std::uint64_t values[std::size(figures)];
        for (std::size_t i = 0; i < std::size(figures); ++i) values[i] = from->*figures[i];
        const target& t = *static_cast<const target*>(p);
        t.receive(t.context, name, 0, values);
      },
      &to);
}

}  // namespace

constinit const metric_group metrics{"recycler", nullptr, shown, std::size(shown), visit};

}  // namespace tarn::recycler_registry
