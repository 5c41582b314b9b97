// SPDX-License-Identifier: MIT
// The figures of typed pools, as metrics.
#include "pool/pool_registry.hpp"

#include <iterator>

namespace tarn::pool_registry {
namespace {

using figure = std::uint64_t tarn_pool_figures::*;

constexpr auto gauge = metric_kind::gauge;
constexpr auto counter = metric_kind::counter;
constexpr auto bytes = metric_unit::bytes;
constexpr auto none = metric_unit::none;

constexpr metric shown[] = {
    {"tarn_pool_live_objects", gauge, none, "Objects of the typed pool in the hands of the program"},
    {"tarn_pool_peak_objects", gauge, none, "Upper bound of the most live objects at once"},
    {"tarn_pool_bytes", gauge, bytes, "Memory of the pool"},
    {"tarn_pool_cached_objects", gauge, none, "Free slots in magazines"},
    {"tarn_pool_hits", counter, none, "Allocations that magazines could serve"},
    {"tarn_pool_refills", counter, none, "Allocations that filled a magazine"},
};
constexpr figure figures[] = {
    &tarn_pool_figures::live,   &tarn_pool_figures::peak, &tarn_pool_figures::bytes,
    &tarn_pool_figures::cached, &tarn_pool_figures::hits, &tarn_pool_figures::refills,
};
static_assert(std::size(shown) == std::size(figures));

void visit(metric_receiver receive, void* context) {
  struct target {
    metric_receiver receive;
    void* context;
  } to{receive, context};
  tarn_pool_visit(
      [](void* p, const char* name, const tarn_pool_figures* from) {
        std::uint64_t values[std::size(figures)];
        for (std::size_t i = 0; i < std::size(figures); ++i) values[i] = from->*figures[i];
        const target& t = *static_cast<const target*>(p);
        t.receive(t.context, name, 0, values);
      },
      &to);
}

}  // namespace

constinit const metric_group metrics{"pool", nullptr, shown, std::size(shown), visit};

}  // namespace tarn::pool_registry
