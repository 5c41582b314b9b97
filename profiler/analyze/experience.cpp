// SPDX-License-Identifier: MIT
#include "profiler/analyze/experience.hpp"

#include <algorithm>

namespace tarn::profiler {

namespace {

struct table_row {
  advice_kind kind;
  advice_grade grade;
  heap_size heap;
  experience found;
};

constexpr table_row experience_rows[] = {
#include "profiler/analyze/experience_table.inc"
};

// More than the second caches hold.
constexpr double large_heap_bytes = 0x1p23;

}  // namespace

heap_size heap_size_of(double peak_bytes) {
  return peak_bytes >= large_heap_bytes ? heap_size::large : heap_size::small;
}

experience experience_of(advice_kind kind, advice_grade grade, heap_size heap) {
  const table_row* best = nullptr;
  for (const table_row& row : experience_rows) {
    if (row.kind != kind || row.grade != grade || (row.heap != heap_size::any && row.heap != heap)) continue;
    if (best == nullptr || row.heap != heap_size::any) best = &row;
  }
  return best != nullptr ? best->found : experience();
}

void apply_experience(advice& one, const raw_saving& raw, heap_size heap, double cpu_ns) {
  const experience by = experience_of(one.kind, one.grade, heap);
  one.raw_ns = raw.raw_ns;
  one.saving_ns = std::clamp(by.middle * raw.raw_ns, 0.0, cpu_ns);
  one.low_ns = std::clamp(by.low * std::min(raw.least_ns, raw.raw_ns * (1 - raw.error)), 0.0, one.saving_ns);
  one.high_ns =
      std::clamp(by.high * std::max(raw.most_ns, raw.raw_ns * (1 + raw.error)), one.saving_ns, cpu_ns);
  one.share = one.saving_ns / cpu_ns;
}

}  // namespace tarn::profiler
