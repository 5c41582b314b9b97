// SPDX-License-Identifier: MIT
#include "profiler/model/packed_sites.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "profiler/model/figure_columns.hpp"
#include "profiler/model/table_columns.hpp"

namespace tarn::profiler {

namespace {

// Sites that are made into rows at once.
constexpr std::size_t part_sites = 4096;

table site_rows(std::span<const site> sites, bool with_processes) {
  table rows = new_table("sites", sites.size(), true);
  add_column<integers>(rows, "stack", 0, [&](std::size_t row) { return sites[row].stack; });
  add_column<texts>(rows, "type", 0, [&](std::size_t row) { return sites[row].type; });
  add_column<integers>(rows, "evidence", 0, [&](std::size_t row) { return sites[row].evidence; });
  if (with_processes) {
    add_column<integers>(rows, "process", 0, [&](std::size_t row) { return sites[row].process; });
  }
  for (const figure_column& each : figure_columns) {
    add_column<reals>(rows, each.name, 0, [&](std::size_t row) { return sites[row].figures.*each.member; });
  }
  return rows;
}

// A list that each site has, as one table; `of` chooses the list, `first` is the row of the first site.
template <typename Item>
struct site_list {
  std::vector<std::pair<std::size_t, const Item*>> items;

  site_list(std::span<const site> sites, std::size_t first, std::vector<Item> site::*of) {
    for (std::size_t index = 0; index < sites.size(); ++index) {
      for (const Item& item : sites[index].*of) items.emplace_back(first + index, &item);
    }
  }

  table start(const char* name) const {
    table rows = new_table(name, items.size(), true);
    add_column<integers>(rows, "site", 0, [&](std::size_t row) { return items[row].first; });
    return rows;
  }

  template <typename Values, typename Member>
  void add(table& rows, const char* name, Member Item::*member) const {
    add_column<Values>(rows, name, 0, [&](std::size_t row) { return items[row].second->*member; });
  }
};

table size_rows(std::span<const site> sites, std::size_t first) {
  const site_list<size_count> sizes(sites, first, &site::sizes);
  table rows = sizes.start("site_sizes");
  sizes.add<integers>(rows, "size", &size_count::size);
  sizes.add<reals>(rows, "count", &size_count::count);
  sizes.add<integers>(rows, "exact", &size_count::exact);
  return rows;
}

table lifetime_rows(std::span<const site> sites, std::size_t first) {
  const site_list<lifetime_count> lifetimes(sites, first, &site::lifetimes);
  table rows = lifetimes.start("site_lifetimes");
  lifetimes.add<integers>(rows, "lifetime", &lifetime_count::lifetime);
  lifetimes.add<integers>(rows, "size", &lifetime_count::size);
  lifetimes.add<reals>(rows, "count", &lifetime_count::count);
  lifetimes.add<reals>(rows, "bytes", &lifetime_count::bytes);
  return rows;
}

table thread_rows(std::span<const site> sites, std::size_t first) {
  const site_list<thread_pair> threads(sites, first, &site::threads);
  table rows = threads.start("site_threads");
  threads.add<integers>(rows, "from", &thread_pair::from);
  threads.add<integers>(rows, "to", &thread_pair::to);
  threads.add<reals>(rows, "count", &thread_pair::count);
  threads.add<reals>(rows, "bytes", &thread_pair::bytes);
  return rows;
}

}  // namespace

// Without any site, too, each table has its columns.
packed_sites::packed_sites(bool with_processes) : with_processes_(with_processes) { add_part({}); }

void packed_sites::add(std::span<const site> sites) {
  while (!sites.empty()) {
    const std::size_t count = std::min(sites.size(), part_sites);
    add_part(sites.first(count));
    sites = sites.subspan(count);
  }
  for (growing_table* each : {&sites_, &sizes_, &lifetimes_, &threads_}) each->release();
}

void packed_sites::add_part(std::span<const site> sites) {
  sites_.add(site_rows(sites, with_processes_));
  sizes_.add(size_rows(sites, sites_added_));
  lifetimes_.add(lifetime_rows(sites, sites_added_));
  threads_.add(thread_rows(sites, sites_added_));
  sites_added_ += sites.size();
}

void packed_sites::write(table_writer& out) {
  for (growing_table* each : {&sites_, &sizes_, &lifetimes_, &threads_}) out.append(*each);
}

}  // namespace tarn::profiler
