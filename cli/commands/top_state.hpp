// SPDX-License-Identifier: MIT
// top_state: what the view of `tarn top` shows, and the keys that change it. Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/show/live_view.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::cli {

class top_state {
 public:
  explicit top_state(std::string title) : title_(std::move(title)) {}

  void add(profiler::profile&& p);
  bool has_figures() const { return latest_ != nullptr; }
  const live_rates& rates() const { return rates_; }
  const std::vector<live_place>& places() const { return places_; }
  double seconds() const;

  // False: quit.
  bool take_key(char key);
  // What stays on the terminal when the screen has been given back: the averages of the whole time.
  std::string summary(std::size_t columns, bool colour) const;
  std::string render(int rows, std::size_t width, bool colour) const;

 private:
  void refresh();
  void toggle_mark();
  void write();

  std::string title_;
  std::string message_;
  std::unique_ptr<profiler::profile> previous_;
  std::unique_ptr<profiler::profile> latest_;
  std::unique_ptr<profiler::profile> marked_;
  live_rates rates_;
  std::vector<live_place> places_;
  live_growth growth_;
  live_growth growth_since_mark_;
  live_order order_ = live_order::cost;
  bool frozen_ = false;
  int written_ = 0;
};

}  // namespace tarn::cli
