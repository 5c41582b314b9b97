// SPDX-License-Identifier: MIT
// figure_columns: the members of site_figures and counter_row by their names, which are those of the file's columns.
#pragma once

#include <array>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct figure_column {
  const char* name;
  double site_figures::*member;
};

inline constexpr std::array figure_columns = {
    figure_column{"samples", &site_figures::samples},
    figure_column{"allocations", &site_figures::allocations},
    figure_column{"frees", &site_figures::frees},
    figure_column{"bytes", &site_figures::bytes},
    figure_column{"usable_bytes", &site_figures::usable_bytes},
    figure_column{"freed_bytes", &site_figures::freed_bytes},
    figure_column{"peak_bytes", &site_figures::peak_bytes},
    figure_column{"bytes_at_peak", &site_figures::bytes_at_peak},
    figure_column{"live", &site_figures::live},
    figure_column{"live_bytes", &site_figures::live_bytes},
    figure_column{"earlier_live_bytes", &site_figures::earlier_live_bytes},
    figure_column{"lifetime_ns", &site_figures::lifetime_ns},
    figure_column{"foreign_frees", &site_figures::foreign_frees},
    figure_column{"lifo_frees", &site_figures::lifo_frees},
    figure_column{"batch_frees", &site_figures::batch_frees},
    figure_column{"callocs", &site_figures::callocs},
    figure_column{"calloc_bytes", &site_figures::calloc_bytes},
    figure_column{"reallocs", &site_figures::reallocs},
    figure_column{"realloc_bytes", &site_figures::realloc_bytes},
    figure_column{"large", &site_figures::large},
    figure_column{"large_bytes", &site_figures::large_bytes},
    figure_column{"faults", &site_figures::faults},
    figure_column{"fault_pages", &site_figures::fault_pages},
    figure_column{"kernel_faults", &site_figures::kernel_faults},
    figure_column{"checked_bytes", &site_figures::checked_bytes},
    figure_column{"resident_bytes", &site_figures::resident_bytes},
    figure_column{"maps", &site_figures::maps},
    figure_column{"mapped_bytes", &site_figures::mapped_bytes},
    figure_column{"malloc_ns", &site_figures::malloc_ns},
    figure_column{"allocations_variance", &site_figures::allocations_variance},
    figure_column{"bytes_variance", &site_figures::bytes_variance},
    figure_column{"live_bytes_variance", &site_figures::live_bytes_variance},
    figure_column{"faults_variance", &site_figures::faults_variance},
    figure_column{"malloc_variance", &site_figures::malloc_variance},
    figure_column{"lost", &site_figures::lost},
    figure_column{"lost_bytes", &site_figures::lost_bytes},
    figure_column{"indirect", &site_figures::indirect},
    figure_column{"indirect_bytes", &site_figures::indirect_bytes},
};
static_assert(sizeof(site_figures) == figure_columns.size() * sizeof(double), "a member is missing above");

constexpr bool is_variance(const figure_column& one) {
  return one.member == &site_figures::allocations_variance || one.member == &site_figures::bytes_variance ||
         one.member == &site_figures::live_bytes_variance || one.member == &site_figures::faults_variance ||
         one.member == &site_figures::malloc_variance;
}

struct counter_column {
  const char* name;
  double counter_row::*member;
};

inline constexpr std::array counter_columns = {
    counter_column{"resident_bytes", &counter_row::resident_bytes},
    counter_column{"live_bytes", &counter_row::live_bytes},
    counter_column{"live", &counter_row::live},
    counter_column{"allocations", &counter_row::allocations},
    counter_column{"frees", &counter_row::frees},
    counter_column{"faults", &counter_row::faults},
    counter_column{"seen_faults", &counter_row::seen_faults},
    counter_column{"major_faults", &counter_row::major_faults},
    counter_column{"user_ns", &counter_row::user_ns},
    counter_column{"system_ns", &counter_row::system_ns},
};
static_assert(sizeof(counter_row) == sizeof(std::uint64_t) + counter_columns.size() * sizeof(double),
              "a member is missing above");

}  // namespace tarn::profiler
