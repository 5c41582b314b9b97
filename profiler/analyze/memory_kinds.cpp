// SPDX-License-Identifier: MIT
#include "profiler/analyze/memory_kinds.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "profiler/analyze/places.hpp"
#include "profiler/analyze/site_label.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::profiler {

namespace {

bool is_attached(const profile& p) { return member_in(p.meta, "attached") != nullptr; }

bool may_be_live(const memory_kind& kind, const profile& p) {
  return (p.mode == profile_mode::faults || is_attached(p)) && kind.member == &memory_row::kept;
}

}  // namespace

const memory_kind& kind_named(std::string_view name) {
  return *std::find_if(memory_kinds.begin(), memory_kinds.end(),
                       [name](const memory_kind& one) { return one.name == name; });
}

const char* text_of(const memory_kind& kind, const profile& p) {
  if (kind.member == &memory_row::mapped && flag_in(p.meta, "malloc_untold"))
    return "malloc's memory and what the program itself has mapped: not told apart before the first sample";
  if (kind.member == &memory_row::live && flag_in(p.meta, "black_box"))
    return "live blocks, by what malloc gave for them";
  if (!may_be_live(kind, p)) return kind.text;
  return is_attached(p)
             ? "malloc's memory: blocks from before tarn attached, free blocks, caches, its own data"
             : "malloc's memory: live and free blocks, caches, its own data";
}

double most_of(const memory_row& row, const memory_kind& kind) {
  const bool is_of_samples = kind.member == &memory_row::live || kind.member == &memory_row::kept;
  return row.*kind.member + (is_of_samples ? margin_of(row.live_variance) : 0);
}

std::vector<placed_memory> placed_parts(const profile& p, const memory_row& row, const memory_kind& kind) {
  if (may_be_live(kind, p)) return {};
  std::map<place_key, placed_memory> by_place;
  for (const memory_part& part : p.memory.parts) {
    if (part.time_ns != row.time_ns || part.kind != kind.name) continue;
    source_frame where;
    where.function = part.name.empty() ? "[all smaller ones]" : part.name;
    where.kind = frame_kind::file;
    if (part.site != 0 && part.site <= p.sites.size()) where = site_label(p, p.sites[part.site - 1]);
    placed_memory& sum = by_place[key_of(p, where)];
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
