// SPDX-License-Identifier: MIT
#include "profiler/model/packed_sites.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "profiler/model/table_rows.hpp"

namespace tarn::profiler {

namespace {

// Sites that are made into rows at once.
constexpr std::size_t part_sites = 16384;

table site_rows(std::span<const site> sites, bool with_processes) {
  table rows = new_table("sites", sites.size(), true);
  add_column<integers>(rows, "stack", 0, [&](std::size_t row) { return sites[row].stack; });
  add_column<texts>(rows, "type", 0, [&](std::size_t row) { return sites[row].type; });
  add_column<integers>(rows, "evidence", 0, [&](std::size_t row) { return sites[row].evidence; });
  if (with_processes) {
    add_column<integers>(rows, "process", 0, [&](std::size_t row) { return sites[row].process; });
  }
  add_columns<site_figures>(rows, 0, [&](std::size_t row) -> auto& { return sites[row].figures; });
  return rows;
}

// A list that each site has, as one table; `of` chooses the list, `first` is the row of the first site.
template <class Item>
table list_rows(const char* name, std::span<const site> sites, std::size_t first,
                std::vector<Item> site::*of) {
  std::vector<std::pair<std::size_t, const Item*>> items;
  for (std::size_t index = 0; index < sites.size(); ++index) {
    for (const Item& item : sites[index].*of) items.emplace_back(first + index, &item);
  }
  table rows = new_table(name, items.size(), true);
  add_column<integers>(rows, "site", 0, [&](std::size_t row) { return items[row].first; });
  add_columns<Item>(rows, 0, [&](std::size_t row) -> auto& { return *items[row].second; });
  return rows;
}

}  // namespace

void packed_sites::add(std::span<const site> sites, bool ends) {
  while (!sites.empty() || (ends && !has_ended_)) {
    const std::size_t count = std::min(sites.size(), part_sites);
    has_ended_ = ends && count == sites.size();
    add_part(sites.first(count), has_ended_);
    sites = sites.subspan(count);
  }
  for (chunk_packer* each : {&sites_, &sizes_, &lifetimes_, &threads_}) each->release();
}

void packed_sites::add_part(std::span<const site> sites, bool ends) {
  sites_.pack(site_rows(sites, with_processes_), ends);
  sizes_.pack(list_rows("site_sizes", sites, sites_added_, &site::sizes), ends);
  lifetimes_.pack(list_rows("site_lifetimes", sites, sites_added_, &site::lifetimes), ends);
  threads_.pack(list_rows("site_threads", sites, sites_added_, &site::threads), ends);
  sites_added_ += sites.size();
}

void packed_sites::write(table_writer& out) {
  add({}, true);
  for (chunk_packer* each : {&sites_, &sizes_, &lifetimes_, &threads_}) out.append(*each);
}

}  // namespace tarn::profiler
