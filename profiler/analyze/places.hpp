// SPDX-License-Identifier: MIT
// places: the rows by which every view shows a profile. A place is what site_label() names: all call paths with the same label
// are one row. Costs are shares of one whole, the program's processor time without the recorder's. Pure; any thread.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Of two labels with the same key, the sites are one place.
struct place_key {
  std::string function;
  std::string file;  // file_of
  std::uint32_t line = 0;
  auto operator<=>(const place_key&) const = default;
};
place_key key_of(const profile& p, const source_frame& label);

struct place_row {
  source_frame where;
  std::vector<std::uint32_t> sites;
  site_figures sum;  // the peaks of single sites, which may be at different times, add up to an upper bound
  cost charged;      // cost_of() the sum

  // Half the width of the interval of charged.total().
  double margin() const { return margin_of(charged.whole_variance()); }
  // What lives at the end more than at the profile's mark (growth_from_ns); negative: less.
  double growth() const noexcept { return sum.live_bytes - sum.earlier_live_bytes; }
};

// Adds the figures of another site of the same recording. (add_figures() is for the same site of another one.)
void add_up(site_figures& sum, const site_figures& more);
site_figures sum_of_sites(const profile& p);

// All places, the costliest first.
std::vector<place_row> places_of(const profile& p);

// What a file of a place would be called where its base name tells it from all others in `places`; its whole path otherwise:
// "make (list.cpp:10)".
std::vector<std::string> names_of(const profile& p, const std::vector<place_row>& places);

std::string say_places(std::size_t count);  // "1 place", "12 places"

// Brings the rows first that are shown one by one: those whose figure can be told from zero (`of` returns the figure and half
// the width of its interval), at most `most` of them. Keeps their order. Returns their number; all others are one row, "others".
template <class Row, class Of>
std::size_t split_off_others(std::vector<Row>& rows, std::size_t most, Of of) {
  const auto others = std::stable_partition(rows.begin(), rows.end(), [&of](const Row& row) {
    const auto [value, margin] = of(row);
    return value > margin;
  });
  return std::min(most, static_cast<std::size_t>(others - rows.begin()));
}

}  // namespace tarn::profiler
