// SPDX-License-Identifier: MIT
// The figures of buffer pools, as metrics.
#include "fronts/buffers/buffer_registry.hpp"

namespace tarn::buffer_registry {
namespace {

using enum metric_kind;
using enum metric_unit;
using figures = tarn_buffer_stats;

constexpr metric_of<figures> rows[] = {
    {"tarn_buffer_pool_live_buffers", gauge, none, "Buffers in the hands of the program", &figures::live},
    {"tarn_buffer_pool_live_bytes", gauge, bytes, "Memory of these", &figures::live_bytes},
    {"tarn_buffer_pool_kept_buffers", gauge, none, "Idle buffers", &figures::kept},
    {"tarn_buffer_pool_kept_bytes", gauge, bytes, "Memory of these", &figures::kept_bytes},
    {"tarn_buffer_pool_budget_bytes", gauge, bytes, "Most memory of idle buffers now", &figures::limit},
    {"tarn_buffer_pool_gets", counter, none, "Buffers handed out", &figures::gets},
    {"tarn_buffer_pool_misses", counter, none, "Buffers for which memory had to be found", &figures::misses},
    {"tarn_buffer_pool_given_back_bytes", counter, bytes, "Memory of idle buffers given back to the system",
     &figures::given_back},
};

}  // namespace

constinit const metric_group metrics = metric_table<rows>::group_of<tarn_buffer_visit>("buffer_pool");

}  // namespace tarn::buffer_registry
