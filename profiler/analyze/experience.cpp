// SPDX-License-Identifier: MIT
#include "profiler/analyze/experience.hpp"

#include <algorithm>

namespace tarn::profiler {

namespace {

struct table_row {
  advice_kind kind;
  advice_grade grade;
  placement_effect placement;
  experience found;
};

constexpr table_row experience_rows[] = {
#include "profiler/analyze/experience_table.inc"
};

// Whether this kind of advice places blocks elsewhere than glibc's malloc does.
bool moves_blocks(advice_kind kind) {
  return kind == advice_kind::allocator || kind == advice_kind::typed_pool ||
         kind == advice_kind::object_pool || kind == advice_kind::arena;
}

}  // namespace

experience experience_of(advice_kind kind, advice_grade grade, placement_effect placement) {
  const table_row* best = nullptr;
  for (const table_row& row : experience_rows) {
    if (row.kind != kind || row.grade != grade) continue;
    if (row.placement == placement || (best == nullptr && row.placement == placement_effect::none))
      best = &row;
  }
  return best != nullptr ? best->found : experience();
}

void apply_experience(advice& one, const raw_saving& raw, const judged_program& program) {
  const experience by = experience_of(one.kind, one.grade, program.placement);
  const double cpu_ns = program.cpu_ns;
  const bool splits = one.kind == advice_kind::allocator;
  const experience of_faults =
      splits ? experience_of(advice_kind::tunable, one.grade, placement_effect::none) : experience();
  const double fault_ns = splits ? std::clamp(raw.fault_ns, 0.0, std::max(0.0, raw.raw_ns)) : 0;
  const auto times = [&](double ns, double experience::*part) {
    const double faults = std::min(ns, fault_ns);
    return of_faults.*part * faults + by.*part * (ns - faults);
  };
  const double own =
      moves_blocks(one.kind) ? experience_of(advice_kind::allocator, one.grade, program.placement).own : 0;
  one.raw_ns = raw.raw_ns;
  one.raw_fault_ns = fault_ns;
  one.saving_ns = std::clamp(times(raw.raw_ns, &experience::middle), 0.0, cpu_ns);
  const double least = std::min(raw.least_ns, raw.raw_ns * (1 - raw.error));
  const double most = std::max(raw.most_ns, raw.raw_ns * (1 + raw.error));
  one.low_ns = std::clamp(times(least, &experience::low), 0.0, one.saving_ns);
  one.high_ns = std::clamp(times(most, &experience::high) + own * program.own_ns, one.saving_ns, cpu_ns);
  one.share = one.saving_ns / cpu_ns;
}

}  // namespace tarn::profiler
