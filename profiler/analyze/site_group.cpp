// SPDX-License-Identifier: MIT
#include "profiler/analyze/site_group.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "profiler/analyze/function_name.hpp"
#include "profiler/analyze/places.hpp"
#include "profiler/analyze/site_label.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/model/site_sum.hpp"

namespace tarn::profiler {

namespace {

void add_site(site_group& group, const profile& p, std::uint32_t index) {
  const site& one = p.sites[index];
  group.sites.push_back(index);
  add_up(group.sum, one.figures);
  for (const size_count& each : one.sizes) add_size(group.sizes, each);
  group.charged += cost_of(p, one.figures);
}

// The peaks of paths and places at different times add up to more than ever lived at once: limits them.
void bound_peaks(std::vector<site_group>& groups, const profile& p) {
  double most = 0;
  double largest = 0;
  for (const site& one : p.sites) {
    most += one.figures.bytes_at_peak;
    largest = std::max(largest, one.figures.peak_bytes);
  }
  most = std::max(most, largest);
  for (site_group& group : groups) group.sum.peak_bytes = std::min(group.sum.peak_bytes, most);
}

// If the recording could not observe all faults, the kernel still counted them, and the residency of large blocks
// is checked when they are freed: resident pages must have been faulted in, up to the number of unobserved faults.
// A block that was reused without new faults cannot be distinguished from others.
void share_unseen_faults(std::vector<site_group>& groups, const profile& p, double page_bytes) {
  std::vector<double> missing;
  double all = 0;
  for (const site_group& group : groups) {
    const double resident =
        group.sum.checked_bytes > 0 ? group.touched_part() * group.sum.large_bytes / page_bytes : 0;
    missing.push_back(std::max(0.0, resident - group.pages()));
    all += missing.back();
  }
  const double part = std::min(1.0, all > 0 ? p.unseen_faults / all : 0);
  for (std::size_t index = 0; index < groups.size(); ++index) {
    site_figures unseen;
    unseen.faults = unseen.fault_pages = groups[index].unseen_pages = part * missing[index];
    groups[index].charged += cost_of(p, unseen);
  }
}

void set_place(site_group& group, const std::vector<source_frame>& frames, std::size_t at) {
  group.place = label_of(frames);
  const std::size_t end = std::min(frames.size(), at + 2);
  for (std::size_t index = 0; index < end; ++index) group.functions.push_back(frames[index].function);
}

}  // namespace

double page_bytes_of(const profile& p) { return positive_in(p.meta, "page_bytes", 4096); }

double site_group::pages() const noexcept { return std::max(sum.faults, sum.fault_pages) + unseen_pages; }

double site_group::touched_part() const noexcept {
  return sum.checked_bytes > 0 ? std::clamp(sum.resident_bytes / sum.checked_bytes, 0.0, 1.0) : 1;
}

double site_group::again(double page_bytes, double held) const noexcept {
  return std::max(0.0, pages() - (touched_part() * chunk_part() * held + sum.mapped_bytes) / page_bytes);
}

double site_group::held_variance(double held) const noexcept {
  return sum.bytes > 0 ? sum.bytes_variance * std::min(1.0, held / sum.bytes) : 0;
}

double site_group::chunk_part() const noexcept {
  constexpr double header_bytes = 8;
  return sum.bytes > 0 ? std::max(1.0, (sum.usable_bytes + header_bytes * sum.allocations) / sum.bytes) : 1;
}

double site_group::mean_bytes() const noexcept { return sum.bytes / std::max(1.0, sum.allocations); }

bool site_group::in_array_container() const noexcept {
  return std::any_of(functions.begin(), functions.end(), [](const std::string& function) {
    const std::string name = plain_name(function);
    return name.starts_with("std::vector::") || name.starts_with("std::_Vector_base::") ||
           name.find("basic_string::") != std::string::npos || name.starts_with("std::deque::") ||
           name.starts_with("std::_Deque_base::");
  });
}

std::string say_place(const source_frame& frame) {
  if (frame.file.empty()) return frame.function;
  return frame.file + (frame.line != 0 ? ":" + std::to_string(frame.line) : "") + " " + frame.function;
}

std::vector<site_group> group_sites(const profile& p) {
  std::map<std::pair<place_key, std::string>, site_group> found;
  std::vector<std::pair<double, std::uint32_t>> order;
  for (std::uint32_t index = 0; index < p.sites.size(); ++index) {
    order.emplace_back(cost_of(p, p.sites[index].figures).total(), index);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [total, index] : order) {
    const std::vector<source_frame> frames = near_frames(p, p.sites[index].stack);
    const std::size_t at = frames.empty() ? 0 : own_frame(frames);
    const auto [entry, is_new] = found.try_emplace({key_of(p, label_of(frames)), p.sites[index].type});
    if (is_new) {
      entry->second.type = p.sites[index].type;
      set_place(entry->second, frames, at);
    }
    add_site(entry->second, p, index);
  }
  std::vector<site_group> groups;
  groups.reserve(found.size());
  for (auto& [key, group] : found) groups.push_back(std::move(group));
  bound_peaks(groups, p);
  share_unseen_faults(groups, p, page_bytes_of(p));
  for (site_group& group : groups) {
    std::stable_sort(group.sizes.begin(), group.sizes.end(),
                     [](const size_count& a, const size_count& b) { return a.count > b.count; });
  }
  std::stable_sort(groups.begin(), groups.end(), [](const site_group& a, const site_group& b) {
    return a.charged.total() > b.charged.total();
  });
  return groups;
}

}  // namespace tarn::profiler
