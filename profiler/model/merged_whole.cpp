// SPDX-License-Identifier: MIT
// merged_whole: derives from a merged profile its processes as one whole, and the figures of each.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "profiler/model/figure_columns.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/model/merge.hpp"
#include "profiler/model/site_sum.hpp"

namespace tarn::profiler {

namespace {

constexpr std::size_t most_sentences = 64;
constexpr const char* summed_members[] = {"other_faults",   "unseen_faults", "lost_events", "recorder_ns",
                                          "unwind_checked", "unwind_wrong",  "odd_events"};
constexpr const char* largest_members[] = {"sample_bytes", "fault_period"};
constexpr const char* sentence_members[] = {"refused", "symbol_notes"};

double faults_of(const process_part& process) {
  return process.counters.empty() ? 0 : process.counters.back().faults;
}

// Mean prices, weighted so that the cost of all faults is the sum of their costs in each process.
nlohmann::json joined_prices(const std::vector<process_part>& processes) {
  double all_faults = 0;
  for (const process_part& each : processes) all_faults += faults_of(each);
  nlohmann::json prices = nlohmann::json::object();
  for (const process_part& each : processes) {
    if (!each.meta.contains("prices")) continue;
    const double weight =
        all_faults > 0 ? faults_of(each) / all_faults : 1 / static_cast<double>(processes.size());
    for (const auto& [name, price] : each.meta["prices"].items()) {
      if (price.is_number()) prices[name] = number_in(prices, name.c_str()) + weight * price.get<double>();
    }
  }
  return prices;
}

// The sum of the processes' times. Their clock errors are independent; their systematic errors are the same.
nlohmann::json joined_malloc_times(const std::vector<process_part>& processes) {
  constexpr std::array sums = {"ns", "small_ns", "samples", "in_malloc", "in_recorder"};
  constexpr std::array weighed = {"clock_part", "factor", "systematic_error"};
  nlohmann::json joined = nlohmann::json::object();
  double variance = 0;
  for (const process_part& each : processes) {
    const nlohmann::json* found = member_in(each.meta, "malloc_time");
    if (found == nullptr || !found->is_object()) continue;
    const double ns = number_in(*found, "ns");
    for (const char* name : sums) joined[name] = number_in(joined, name) + number_in(*found, name);
    for (const char* name : weighed) joined[name] = number_in(joined, name) + ns * number_in(*found, name);
    joined["clock_ns"] = std::max(number_in(joined, "clock_ns"), number_in(*found, "clock_ns"));
    variance += std::pow(ns * number_in(*found, "clock_error"), 2);
  }
  const double all = number_in(joined, "ns");
  if (all <= 0) return nlohmann::json::object();
  for (const char* name : weighed) joined[name] = number_in(joined, name) / all;
  joined["clock_error"] = std::sqrt(variance) / all;
  return joined;
}

nlohmann::json joined_sentences(const std::vector<process_part>& processes, const char* name) {
  nlohmann::json all = nlohmann::json::array();
  std::set<std::string> known;
  for (const process_part& each : processes) {
    const nlohmann::json* sentences = member_in(each.meta, name);
    if (sentences == nullptr || !sentences->is_array()) continue;
    for (const auto& one : *sentences) {
      if (all.size() < most_sentences && one.is_string() && known.insert(one.get<std::string>()).second) {
        all.push_back(one);
      }
    }
  }
  return all;
}

nlohmann::json joined_children(const std::vector<process_part>& processes) {
  double count = 0;
  double allocations = 0;
  for (const process_part& each : processes) {
    const nlohmann::json* children = member_in(each.meta, "small_children");
    if (children == nullptr) continue;
    count += number_in(*children, "processes");
    allocations += number_in(*children, "allocations");
  }
  return {{"processes", count}, {"allocations", allocations}};
}

// The sum of the values of those processes that ran at `time`.
template <class Values>
double sum_at(double time, const std::vector<process_span>& spans, const Values& values) {
  double sum = 0;
  for (const auto& [process, value] : values) {
    const process_span& span = spans[process];
    if (time >= span.begin && (time < span.end || time == span.begin)) sum += value;
  }
  return sum;
}

using values_by_process = std::map<std::uint32_t, double>;

// The largest sum at any time, if each process had its value all the time that it ran; and the time of that sum.
std::pair<double, double> most_at_once(const std::vector<process_span>& spans,
                                       const values_by_process& values) {
  std::pair<double, double> most{0, 0};
  for (const auto& [process, ignored] : values) {
    const double sum = sum_at(spans[process].begin, spans, values);
    if (sum > most.first) most = {sum, spans[process].begin};
  }
  return most;
}

// Leaks of the whole are known only if they are known of each process.
nlohmann::json joined_leaks(const std::vector<process_part>& processes) {
  double threads = 0;
  for (const process_part& each : processes) {
    const nlohmann::json* leaks = member_in(each.meta, "leaks");
    if (leaks == nullptr || !flag_in(*leaks, "known"))
      return {{"known", false}, {"reason", leaks == nullptr ? "" : text_in(*leaks, "reason")}};
    threads += number_in(*leaks, "threads");
  }
  return {{"known", true}, {"reason", ""}, {"threads", threads}};
}

// The peak of resident memory of several processes is not known exactly: an upper bound, unless there is one
// process.
void join_peaks(const std::vector<process_part>& processes, nlohmann::json& meta) {
  values_by_process peaks;
  bool exact = processes.size() == 1;
  for (std::size_t index = 0; index < processes.size(); ++index) {
    peaks[static_cast<std::uint32_t>(index)] = number_in(processes[index].meta, "peak_resident_bytes");
    exact = exact && flag_in(processes[index].meta, "peak_resident_exact");
  }
  meta["peak_resident_bytes"] = most_at_once(spans_of(processes), peaks).first;
  meta["peak_resident_exact"] = exact;
}

}  // namespace

std::vector<process_span> spans_of(const std::vector<process_part>& processes) {
  constexpr double ns = 1e9;
  std::vector<process_span> spans;
  double first = 0;
  for (std::size_t index = 0; index < processes.size(); ++index) {
    const double start = number_in(processes[index].meta, "start");
    first = index == 0 ? start : std::min(first, start);
  }
  for (const process_part& each : processes) {
    const double begin = (number_in(each.meta, "start") - first) * ns;
    spans.push_back({begin, begin + number_in(each.meta, "duration_ns")});
  }
  std::vector<std::size_t> order(spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&spans](std::size_t left, std::size_t right) { return spans[left].begin < spans[right].begin; });
  double left_out = 0;
  double covered = 0;
  for (const std::size_t index : order) {
    process_span& span = spans[index];
    left_out = std::max(left_out, span.begin - covered);
    span.begin -= left_out;
    span.end -= left_out;
    covered = std::max(covered, span.end + left_out);
  }
  return spans;
}

nlohmann::json joined_meta(const std::vector<process_part>& processes) {
  const auto root = std::min_element(processes.begin(), processes.end(),
                                     [](const process_part& left, const process_part& right) {
                                       return number_in(left.meta, "start") < number_in(right.meta, "start");
                                     });
  nlohmann::json meta = root->meta;
  double count = 0;
  double end = 0;
  for (const process_span& span : spans_of(processes)) end = std::max(end, span.end);
  for (const process_part& each : processes) {
    count += number_in(each.meta, "processes", 1);
    if (each.meta.contains("mode") && each.meta["mode"] == "sample") meta["mode"] = "sample";
  }
  for (const char* name : summed_members) {
    double sum = 0;
    for (const process_part& each : processes) sum += number_in(each.meta, name);
    meta[name] = sum;
  }
  for (const char* name : largest_members) {
    for (const process_part& each : processes) {
      meta[name] = std::max(number_in(meta, name), number_in(each.meta, name));
    }
  }
  for (const char* name : sentence_members) meta[name] = joined_sentences(processes, name);
  meta["prices"] = joined_prices(processes);
  meta["malloc_time"] = joined_malloc_times(processes);
  meta["small_children"] = joined_children(processes);
  join_peaks(processes, meta);
  meta["leaks"] = joined_leaks(processes);
  meta["processes"] = count;
  meta["duration_ns"] = end;
  return meta;
}

std::vector<counter_row> joined_counters(const std::vector<process_part>& processes) {
  struct change {
    double time = 0;
    std::size_t process = 0;
    const counter_row* row = nullptr;  // null: the process has ended
  };
  const std::vector<process_span> spans = spans_of(processes);
  std::vector<change> changes;
  for (std::size_t index = 0; index < processes.size(); ++index) {
    double last = spans[index].end;
    for (const counter_row& row : processes[index].counters) {
      const double time = spans[index].begin + static_cast<double>(row.time_ns);
      changes.push_back({time, index, &row});
      last = std::max(last, time);
    }
    changes.push_back({last, index, nullptr});
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const change& left, const change& right) { return left.time < right.time; });
  std::vector<counter_row> now(processes.size());
  counter_row sum;
  std::vector<counter_row> rows;
  for (const change& each : changes) {
    counter_row& before = now[each.process];
    counter_row after = each.row != nullptr ? *each.row : before;
    for (const counter_column& column : counter_columns) {
      if (each.row == nullptr && !is_running_total(column.member)) after.*column.member = 0;
      sum.*column.member += after.*column.member - before.*column.member;
    }
    before = after;
    sum.time_ns = static_cast<std::uint64_t>(std::max(0.0, each.time));
    const bool is_last_end = each.row == nullptr && &each == &changes.back();
    // No row for the end of the last process: the memory of the row before it is what the whole had at its end.
    if (!is_last_end) rows.push_back(sum);
  }
  return rows;
}

namespace {

// The peaks of a site that several processes have.
struct shared_peaks {
  values_by_process peaks;
  values_by_process then;  // live bytes at the peak of the process

  void add(const site& one) {
    peaks[one.process] += one.figures.peak_bytes;
    then[one.process] += one.figures.bytes_at_peak;
  }
};

}  // namespace

void join_sites(profile& parts) {
  const std::vector<process_span> spans = spans_of(parts.processes);
  values_by_process at_peaks;
  for (const site& each : parts.sites) at_peaks[each.process] += each.figures.bytes_at_peak;
  const double peak_time = most_at_once(spans, at_peaks).second;
  std::map<std::pair<std::uint32_t, std::string_view>, std::size_t> places;
  std::map<std::size_t, shared_peaks> shared;
  // In place, as there may be many sites: a joined site's index is never above the index that it comes from.
  std::vector<site>& sites = parts.sites;
  std::size_t joined = 0;
  for (std::size_t index = 0; index < sites.size(); ++index) {
    site& each = sites[index];
    const auto found = places.find({each.stack, each.type});
    if (found == places.end()) {
      if (index != joined) sites[joined] = std::move(each);
      places.try_emplace({sites[joined].stack, sites[joined].type}, joined);
      ++joined;
      continue;
    }
    site& first = sites[found->second];
    const auto [peaks, is_new] = shared.try_emplace(found->second);
    if (is_new) peaks->second.add(first);
    peaks->second.add(each);
    add_site(first, each);
  }
  places.clear();
  sites.resize(joined);
  for (std::size_t index = 0; index < joined; ++index) {
    site_figures& figures = sites[index].figures;
    const auto several = shared.find(index);
    if (several == shared.end()) {
      figures.bytes_at_peak =
          sum_at(peak_time, spans, values_by_process{{sites[index].process, figures.bytes_at_peak}});
    } else {
      figures.peak_bytes = most_at_once(spans, several->second.peaks).first;
      figures.bytes_at_peak = sum_at(peak_time, spans, several->second.then);
    }
    sites[index].process = 0;
  }
}

void figure_sums::add(const std::vector<site>& sites) {
  for (const site& each : sites) {
    if (sums_.size() <= each.process) sums_.resize(each.process + std::size_t{1});
    site_figures figures = each.figures;
    // A fault provides at least one page (cost_of). This holds for each site by itself, so it comes before the sum.
    figures.fault_pages = std::max(figures.faults, figures.fault_pages);
    add_figures(sums_[each.process], figures);
  }
}

std::vector<profile> figure_sums::by_process(const std::vector<process_part>& processes) const {
  std::vector<profile> all(processes.size());
  for (std::size_t process = 0; process < all.size(); ++process) {
    profile& one = all[process];
    set_meta(one, processes[process].meta);
    one.counters = processes[process].counters;
    if (process < sums_.size()) one.sites.emplace_back().figures = sums_[process];
    fit_costs(one);
  }
  return all;
}

std::vector<profile> figures_by_process(const profile& parts) {
  figure_sums sums;
  sums.add(parts.sites);
  return sums.by_process(parts.processes);
}

}  // namespace tarn::profiler
