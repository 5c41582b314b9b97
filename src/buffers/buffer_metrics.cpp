// SPDX-License-Identifier: MIT
// The figures of buffer pools, as metrics.
#include "buffers/buffer_registry.hpp"

#include <iterator>

namespace tarn::buffer_registry {
namespace {

using figure = std::uint64_t tarn_buffer_figures::*;

constexpr auto gauge = metric_kind::gauge;
constexpr auto counter = metric_kind::counter;
constexpr auto bytes = metric_unit::bytes;
constexpr auto none = metric_unit::none;

constexpr metric shown[] = {
    {"tarn_buffer_pool_live_buffers", gauge, none, "Buffers in the hands of the program"},
    {"tarn_buffer_pool_live_bytes", gauge, bytes, "Memory of these"},
    {"tarn_buffer_pool_kept_buffers", gauge, none, "Idle buffers"},
    {"tarn_buffer_pool_kept_bytes", gauge, bytes, "Memory of these"},
    {"tarn_buffer_pool_budget_bytes", gauge, bytes, "Most memory of idle buffers now"},
    {"tarn_buffer_pool_gets", counter, none, "Buffers handed out"},
    {"tarn_buffer_pool_misses", counter, none, "Buffers for which memory had to be found"},
    {"tarn_buffer_pool_given_back_bytes", counter, bytes, "Memory of idle buffers given back to the system"},
};
constexpr figure figures[] = {
    &tarn_buffer_figures::live,       &tarn_buffer_figures::live_bytes, &tarn_buffer_figures::kept,
    &tarn_buffer_figures::kept_bytes, &tarn_buffer_figures::budget,     &tarn_buffer_figures::gets,
    &tarn_buffer_figures::misses,     &tarn_buffer_figures::given_back,
};
static_assert(std::size(shown) == std::size(figures));

void visit(metric_receiver receive, void* context) {
  struct target {
    metric_receiver receive;
    void* context;
  } to{receive, context};
  tarn_buffer_visit(
      [](void* p, const char* name, const tarn_buffer_figures* from) {
        std::uint64_t values[std::size(figures)];
        for (std::size_t i = 0; i < std::size(figures); ++i) values[i] = from->*figures[i];
        const target& t = *static_cast<const target*>(p);
        t.receive(t.context, name, 0, values);
      },
      &to);
}

}  // namespace

constinit const metric_group metrics{"buffer_pool", nullptr, shown, std::size(shown), visit};

}  // namespace tarn::buffer_registry
