// SPDX-License-Identifier: MIT
#include "profiler/analyze/places.hpp"

#include <map>

#include "profiler/analyze/function_name.hpp"
#include "profiler/analyze/site_label.hpp"
#include "profiler/model/figure_columns.hpp"

namespace tarn::profiler {

namespace {

std::string name_of(const source_frame& where, const std::string& file) {
  constexpr std::size_t longest = 60;
  std::string function = where.function.size() > longest ? short_name(where.function) : where.function;
  if (file.empty()) return function;
  return function + " (" + file + (where.line != 0 ? ":" + std::to_string(where.line) : "") + ")";
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

place_key key_of(const profile& p, const source_frame& label) {
  return {label.function, file_of(p, label), label.line};
}

void add_up(site_figures& sum, const site_figures& more) {
  for (const figure_column& each : figure_columns) sum.*each.member += more.*each.member;
}

site_figures sum_of_sites(const profile& p) {
  site_figures sum;
  for (const site& each : p.sites) add_up(sum, each.figures);
  return sum;
}

std::vector<place_row> places_of(const profile& p) {
  std::map<place_key, place_row> found;
  for (std::uint32_t index = 0; index < p.sites.size(); ++index) {
    const site& one = p.sites[index];
    const source_frame label = site_label(p, one);
    place_row& into = found[key_of(p, label)];
    if (into.sites.empty()) into.where = label;
    into.sites.push_back(index);
    add_up(into.sum, one.figures);
  }
  std::vector<place_row> places;
  places.reserve(found.size());
  for (auto& [key, one] : found) {
    one.charged = cost_of(p, one.sum);  // the error that all sites share does not average out
    places.push_back(std::move(one));
  }
  std::stable_sort(places.begin(), places.end(), [](const place_row& left, const place_row& right) {
    return left.charged.total() > right.charged.total();
  });
  return places;
}

std::vector<std::string> names_of(const profile& p, const std::vector<place_row>& places) {
  std::map<std::string, int> alike;
  std::vector<std::string> names;
  for (const place_row& one : places) {
    names.push_back(name_of(one.where, base_name(one.where.file)));
    ++alike[names.back()];
  }
  for (std::size_t index = 0; index < places.size(); ++index) {
    if (alike[names[index]] > 1) names[index] = name_of(places[index].where, file_of(p, places[index].where));
  }
  return names;
}

std::string say_places(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " place" : " places");
}

}  // namespace tarn::profiler
