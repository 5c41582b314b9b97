// SPDX-License-Identifier: MIT
#include "cli/commands/top_state.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "cli/show/text.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/model/store_profile.hpp"

namespace tarn::cli {

namespace {

constexpr std::size_t summary_places = 10;
// A smaller terminal has no room for a name beside a figure.
constexpr int least_rows = 8;
constexpr std::size_t least_columns = 44;

std::string top_keys(std::size_t width) {
  const std::string all =
      "sort: c cost  h hidden  f faults  a allocations  b bytes  l live  g growth   space freeze  m mark  w write  q quit";
  return all.size() <= width ? all : "sort: c h f a b l g   space freeze  m mark  w write  q quit";
}

}  // namespace

void top_state::add(profiler::profile&& p) {
  growth_.add(p);
  previous_ = std::move(latest_);
  latest_ = std::make_unique<profiler::profile>(std::move(p));
  if (!frozen_) refresh();
}

double top_state::seconds() const {
  return latest_ ? profiler::number_in(latest_->meta, "duration_ns") * 1e-9 : 0;
}

bool top_state::take_key(char key) {
  constexpr std::pair<char, live_order> orders[] = {{'c', live_order::cost},   {'h', live_order::hidden},
                                                    {'f', live_order::faults}, {'a', live_order::allocations},
                                                    {'b', live_order::bytes},  {'l', live_order::live},
                                                    {'g', live_order::growth}};
  for (const auto& [letter, order] : orders) {
    if (key == letter) order_ = order;
  }
  message_.clear();
  if (key == ' ') frozen_ = !frozen_;
  if (key == 'm') toggle_mark();
  if (key == 'w') write();
  if (has_figures() && !(frozen_ && key == ' ')) refresh();
  return key != 'q' && key != 3;  // ^C
}

std::string top_state::summary(std::size_t columns, bool colour) const {
  const std::size_t width = columns < least_columns ? 80 : columns;
  const profiler::profile none;
  const std::string beginning = fmt::format("tarn top: averages of {:.0f} s: ", seconds());
  return beginning + cut_to_width(title_, std::max(width, beginning.size() + 10) - beginning.size()) + "\n" +
         render_rates(rates_between(none, *latest_, growth_), width, colour) + "\n" +
         render_places(places_between(none, *latest_, order_, growth_), summary_places, order_, width,
                       colour);
}

std::string top_state::render(int rows, std::size_t width, bool colour) const {
  if (rows < least_rows || width < least_columns) {
    return fmt::format("{} x {}: too small\nneeded: {} x {}\nq quits", width, rows, least_columns,
                       least_rows);
  }
  const std::string standing =
      fmt::format("  {:.0f} s{}{}", seconds(), frozen_ ? "  frozen" : "", marked_ ? "  since the mark" : "");
  const std::size_t left = width > standing.size() + 20 ? width - standing.size() : 20;
  const std::string title = pad_right(cut_to_width("tarn top  " + title_, left), width - standing.size());
  const std::string text = paint(title + standing, style::bold, colour) + "\n";
  if (!has_figures()) return text + "waiting for the program's first allocations ...\n" + top_keys(width);
  const std::string places =
      "\n" + render_places(places_, static_cast<std::size_t>(std::max(1, rows - 6)), order_, width, colour);
  return text + render_rates(rates_, width, colour) + places +
         (message_.empty() ? top_keys(width) : cut_to_width(message_, width));
}

void top_state::refresh() {
  const profiler::profile none;
  const profiler::profile& before = marked_ ? *marked_ : (previous_ ? *previous_ : none);
  const live_growth& growth = marked_ ? growth_since_mark_ : growth_;
  rates_ = rates_between(before, *latest_, growth);
  places_ = places_between(before, *latest_, order_, growth);
}

void top_state::toggle_mark() {
  if (marked_ || !latest_) {
    marked_.reset();
  } else {
    marked_ = std::make_unique<profiler::profile>(*latest_);
    growth_since_mark_ = {};
    growth_since_mark_.add(*latest_);
  }
}

void top_state::write() {
  if (!latest_) return;
  const std::string path = fmt::format("tarn-top-{}-{:.0f}s-{}.prof", getpid(), seconds(), ++written_);
  try {
    // Whoever else may write to the folder has perhaps put something at this name.
    profiler::table_writer file(path, profiler::table_writer::start::fresh);
    profiler::store_profile(file, *latest_);
    message_ = fmt::format("written: {}   tarn report {}", path, path);
  } catch (const profiler::profile_error& error) {
    message_ = error.what();
  }
}

}  // namespace tarn::cli
