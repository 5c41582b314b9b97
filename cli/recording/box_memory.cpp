// SPDX-License-Identifier: MIT
#include "cli/recording/box_memory.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "profiler/proc/proc_status.hpp"
#include "profiler/proc/process_maps.hpp"

namespace tarn::cli {

using profiler::box_content;
using profiler::memory_row;
using profiler::profile;

namespace {

// What of the mapping is malloc's and resident: the kernel joins mappings that touch.
double heap_bytes_in(const profiler::mapping& one, const box_content& box, std::uint32_t process) {
  auto range =
      std::upper_bound(box.heap_ranges.begin(), box.heap_ranges.end(), one.start,
                       [](std::uint64_t address, const auto& each) { return address < each.second; });
  if (range == box.heap_ranges.end() || range->first >= one.end) return 0;
  if (range->first <= one.start && range->second >= one.end) return one.resident_bytes;
  const int pagemap = open(fmt::format("/proc/{}/pagemap", process).c_str(), O_RDONLY | O_CLOEXEC);
  const profiler::resident_pages pages(pagemap, one.start, one.end, one.resident_bytes);
  if (pagemap >= 0) close(pagemap);
  double bytes = 0;
  for (; range != box.heap_ranges.end() && range->first < one.end; ++range)
    bytes += pages.bytes_in(range->first, range->second);
  return bytes;
}

bool is_without_file(const profiler::mapping& one) {
  return !one.shared && (!one.is_file() || one.name.starts_with("/memfd:")) &&
         !one.name.starts_with("[stack");
}

}  // namespace

std::optional<memory_row> split_of(std::uint32_t process, std::uint64_t time_ns, const box_content& box,
                                   std::set<std::uint64_t>& stack_lengths) {
  const auto mappings = profiler::read_mappings(process);
  memory_row row;
  row.time_ns = time_ns;
  row.resident_bytes = profiler::resident_bytes_of(process);
  // The list of one that ends meanwhile is cut off.
  if (!mappings || row.resident_bytes <= 0) return std::nullopt;
  std::vector<double> heap_bytes;
  std::vector<bool> may_be_stacks;
  for (const profiler::mapping& one : *mappings) {
    heap_bytes.push_back(is_without_file(one) ? heap_bytes_in(one, box, process) : 0);
    may_be_stacks.push_back(!box.heap_ranges.empty() && heap_bytes.back() == 0);
  }
  if (stack_lengths.empty()) stack_lengths.insert(profiler::usual_stack_bytes(process));
  const std::vector<bool> stacks =
      profiler::stacks_among(*mappings, profiler::stack_pointers_of(process), may_be_stacks, stack_lengths);
  // Of one that has ended meanwhile the pages and the stacks were not read.
  if (profiler::resident_bytes_of(process) <= 0) return std::nullopt;
  for (std::size_t index = 0; index < mappings->size(); ++index) {
    const profiler::mapping& one = (*mappings)[index];
    if (one.shared) {
      row.shared += one.resident_bytes;
    } else if (one.name.starts_with("[stack") || stacks[index]) {
      row.stacks += one.resident_bytes;
    } else if (is_without_file(one)) {
      row.kept += heap_bytes[index];
      const bool is_data = may_be_stacks[index] && profiler::file_of_static_data(*mappings, index) != nullptr;
      (is_data ? row.written : row.mapped) += one.resident_bytes - heap_bytes[index];
    } else {
      row.files += one.resident_bytes - one.anonymous_bytes;
      row.written += one.anonymous_bytes;
    }
  }
  return row;
}

namespace {

// Of a figure that lies between two.
double variance_within(double least, double most) {
  return std::pow((most - least) / 2 / profiler::margin_in_errors, 2);
}

double bytes_of_pools(const box_content& box) {
  double sum = 0;
  for (const auto& [name, bytes] : box.unsampled()) sum += bytes;
  return sum;
}

// The engine's bounds count as if it had measured their middle with that margin, some time ago: both figures have weight by how sure
// they are. What has changed since, the samples tell, unless so many have come and gone that they know what lives better than what has
// changed: then malloc's pages tell it, and may be wrong by the difference to the samples.
live_estimate estimate_of(const box_content& box) {
  live_estimate found{box.live_bytes() + bytes_of_pools(box), box.live_variance(), 0, 0};
  if (!box.live_between) return found;
  const auto& [least, most, in_use, change, change_variance] = *box.live_between;
  const bool do_samples_tell = change_variance <= found.variance;
  const double engine = (least + most) / 2 + (do_samples_tell ? change : box.heap_in_use - in_use);
  const double changed =
      do_samples_tell ? change_variance : std::min(change_variance, std::pow(engine - found.bytes, 2));
  found.bounds_weight = found.variance / (found.variance + variance_within(least, most) + changed);
  found.bytes += found.bounds_weight * (engine - found.bytes);
  if (do_samples_tell) {  // what of it no sample can know is there all the same
    const double margin = profiler::margin_of(change_variance);
    found.bytes = std::clamp(found.bytes, least + change - margin, most + change + margin);
  }
  found.bytes = std::clamp(found.bytes, 0.0, box.heap_in_use);
  found.variance *= 1 - found.bounds_weight;
  return found;
}

}  // namespace

live_estimate split_anonymous(memory_row& row, const box_content& box) {
  const double known = box.heap_in_use + box.heap_free;
  double of_malloc = row.live + row.kept;
  if (box.heap_ranges.empty()) {
    const double all = of_malloc + row.mapped;
    of_malloc = std::min(all, known);
    row.mapped = all - of_malloc;
  }
  live_estimate live = estimate_of(box);
  // Nobody knows where the pages lie that were never written: in blocks that live, or in free memory.
  const double most = std::min(live.bytes, of_malloc);
  const double least = std::max(0.0, live.bytes - std::max(0.0, known - of_malloc));
  live.untouched_most = live.bytes - std::min(least, most);
  row.live = (most + std::min(least, most)) / 2;
  row.live_variance = live.variance + variance_within(std::min(least, most), most);
  // Less than the margin is chance.
  row.untouched = live.bytes - most > profiler::margin_of(live.variance) ? live.bytes - most : 0;
  row.kept = of_malloc - row.live;
  return live;
}

void add_holders(profile& p, const memory_row& row, const live_estimate& live, const box_content& box) {
  const auto add = [&](const std::string& name, std::size_t site, double bytes, double variance) {
    if (bytes > 0)
      p.memory.parts.push_back(
          {row.time_ns, "live", name, static_cast<std::uint32_t>(site), bytes, variance});
  };
  const double pools = bytes_of_pools(box);
  const double variance = box.live_variance();
  const double of_unplaced = profiler::variance_of_none(box.bytes_per_sample());
  const double most_resident = live.bytes - row.untouched;
  const double alive = row.untouched > 0 ? live.bytes : std::min(live.bytes, row.live + row.kept);
  const double change = alive - box.live_bytes() - pools;
  // Each has of the difference what it has of the uncertainty, and becomes surer with the sum.
  const auto changed = [&](double bytes, double own) {
    return std::max(0.0, bytes + change * own / variance);
  };
  const auto narrowed = [&](double own) { return own * (1 - live.bounds_weight * own / variance); };
  double sum = changed(0, of_unplaced);
  for (const profiler::site& one : p.sites)
    sum += changed(one.figures.live_bytes, one.figures.live_bytes_variance);
  const double of_pools = std::min(pools, row.live);
  const double fit = sum > 0 ? (row.live - of_pools) / sum : 0;
  for (std::size_t site = 0; site < p.sites.size(); ++site) {
    const profiler::site_figures& of = p.sites[site].figures;
    const double lives = changed(of.live_bytes, of.live_bytes_variance);
    const double bytes = fit * lives;
    // Nobody knows which blocks were not touched: all of them may be this site's, or none.
    const double least = std::min(bytes, std::max(0.0, lives - live.untouched_most));
    const double most = std::max(bytes, std::min(lives, most_resident));
    const double half = std::max(bytes - least, most - bytes);
    add("", site + 1, bytes,
        profiler::live_bytes_variance(of) - of.live_bytes_variance + narrowed(of.live_bytes_variance) +
            variance_within(-half, half));
  }
  for (const auto& [name, bytes] : box.unsampled()) add(name, 0, bytes * of_pools / pools, 0);
  add(profiler::live_not_sampled, 0, fit * changed(0, of_unplaced), narrowed(of_unplaced));
}

}  // namespace tarn::cli
