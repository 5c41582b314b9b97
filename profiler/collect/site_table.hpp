// SPDX-License-Identifier: MIT
// site_table: what has been allocated, freed and faulted in at each site of a process, and what lives.
//
// Invariant: live blocks and bytes are the sums over all sites. (The check allows rounding errors.) Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "profiler/collect/block_table.hpp"
#include "profiler/collect/call_times.hpp"
#include "profiler/collect/fault_parts.hpp"
#include "profiler/collect/model_events.hpp"
#include "profiler/model/growth_marks.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// For short lists in which a few items are looked up most of the time: finds the item that `same` accepts and moves it one place
// towards the front (transpose heuristic); appends make() if there is none.
template <class Item, class Same, class Make>
[[gnu::always_inline]] inline Item& find_or_append(std::vector<Item>& items, Same same, Make make) {
  for (std::size_t index = 0; index < items.size(); ++index) {
    if (!same(items[index])) continue;
    if (index == 0) return items[0];
    std::swap(items[index], items[index - 1]);
    return items[index - 1];
  }
  items.push_back(make());
  return items.back();
}

// One site. Changed by its table, and by those that count for it.
struct living_site {
  std::uint32_t stack = 0;
  std::string region;            // in mode faults
  std::uint64_t peak_epoch = 0;  // of the table, when live_bytes last changed
  site_figures figures;
  std::array<double, 2> marked{};  // live bytes at the table's marks, the older one first
  site_times times;
  fault_parts parts;               // the site's parts in faults of shared pages
  double sampled_allocations = 0;  // recorded allocations whose weight is above 1
  std::vector<size_count> sizes;   // roughly by falling frequency (see find_or_append)
  std::vector<lifetime_count> lifetimes;
  std::vector<thread_pair> threads;

  void count_size(std::uint64_t size, double weight);
  void count_lifetime(std::uint64_t size, std::uint64_t lifetime_ns, double weight);
  // Blocks that the thread `from` allocated, and `to` freed.
  void count_pair(std::uint32_t from, std::uint32_t to, double bytes, double weight);
  // Bytes that malloc gave beyond the requested ones, as a share of these.
  double rounding() const;
  void fill(site& to) const;
  void absorb(const living_site& child, const site_times& times_of_child);
};

class site_table {
 public:
  // So many that a profile has room for them, and for a few more.
  static constexpr std::size_t most_sites = std::size_t{1} << 18;

  bool has(std::uint32_t node) const noexcept {
    return node < site_of_node_.size() && site_of_node_[node] != 0;
  }
  // The site at the end of the call path `node`.
  std::uint32_t of_node(std::uint32_t node, std::size_t nodes);
  // Mode faults: of a call path that touches the mapping named `place`.
  std::uint32_t of_region(std::uint32_t node, const std::string& place);
  living_site& operator[](std::uint32_t site) { return sites_[site]; }
  const living_site& operator[](std::uint32_t site) const { return sites_[site]; }
  const std::vector<living_site>& all() const noexcept { return sites_; }
  std::size_t size() const noexcept { return sites_.size(); }

  void change_live(living_site& site, double blocks, double bytes, double variance);
  double live_blocks() const noexcept { return live_; }
  double live_bytes() const noexcept { return live_bytes_; }
  void set_lost(const lost_blocks& blocks);
  // Rows of threads have been put together: `place` says where a row is now.
  template <class Place>
  void move_threads(Place place) {
    for (living_site& site : sites_) {
      for (const thread_pair& each : std::exchange(site.threads, {}))
        site.count_pair(place(each.from), place(each.to), each.bytes, each.count);
    }
  }

  // Notes the live bytes of all sites at the marks.
  void pass_time(std::uint64_t time_ns);
  std::uint64_t mark_ns() const noexcept { return marks_.time_ns(passed_ns_); }

  void fill(profile& into) const;
  // `blocks`, `bytes`: all that the process has allocated, to which rounding errors are relative.
  void validate(double blocks, double bytes) const;

 private:
  friend class process_model_test_access;

  std::vector<living_site> sites_;
  std::vector<std::uint32_t> site_of_node_;  // + 1
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> site_of_region_;
  double live_ = 0;
  double live_bytes_ = 0;
  double peak_bytes_ = 0;
  std::uint64_t peak_epoch_ = 0;
  growth_marks marks_;
  std::uint64_t passed_ns_ = 0;
};

}  // namespace tarn::profiler
