// SPDX-License-Identifier: MIT
#include "profiler/analyze/memory_kinds.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "profiler/analyze/site_label.hpp"

namespace tarn::profiler {

std::vector<placed_memory> placed_parts(const profile& p, const memory_row& row, const memory_kind& kind) {
  std::map<std::tuple<std::string, std::string, std::uint32_t>, placed_memory> by_place;
  for (const memory_part& part : p.memory.parts) {
    if (part.time_ns != row.time_ns || part.kind != kind.name) continue;
    source_frame where;
    where.function = part.name.empty() ? "[all smaller ones]" : part.name;
    if (part.site != 0 && part.site <= p.sites.size()) where = site_label(p, p.sites[part.site - 1]);
    placed_memory& sum = by_place[{where.function, where.file, where.line}];
    sum.where = std::move(where);
    sum.bytes += part.bytes;
    sum.variance += part.variance;
  }
  std::vector<placed_memory> parts;
  for (auto& [place, part] : by_place) parts.push_back(std::move(part));
  std::stable_sort(parts.begin(), parts.end(), [](const placed_memory& left, const placed_memory& right) {
    return left.bytes > right.bytes;
  });
  return parts;
}

}  // namespace tarn::profiler
