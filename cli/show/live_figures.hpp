// SPDX-License-Identifier: MIT
// live_figures: what the live views (tarn top, tarn cost --watch) share: figures for columns whose heading has the unit, and
// growth per minute. For one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace tarn::cli {

// Of one processor, MiB, MiB per minute: "31.6", "<0.1", "0"; growth has a sign, and is "-" while it is not known.
std::string show_percent(double share);
std::string show_mib(double bytes);
std::string show_growth(std::optional<double> bytes_per_minute);

// Sizes of things (sites, processes) at an earlier moment: between 30 seconds and a minute ago; at first, after a half of the
// time, so that a program's start is soon out of view.
class growth_log {
 public:
  using sizes = std::unordered_map<std::uint64_t, double>;
  void add(double seconds, const sizes& now);
  // Nothing: it has been watched for less than two seconds. What is not known has grown from nothing.
  std::optional<double> per_minute(double seconds, std::uint64_t thing, double now) const;
  std::optional<double> per_minute(double seconds, const sizes& now) const;  // of all together
  bool knows(std::uint64_t thing) const { return first_ && first_->values.contains(thing); }

 private:
  struct moment {
    double seconds = 0;
    sizes values;
  };
  std::optional<double> since(double seconds) const;

  std::optional<moment> first_;
  std::optional<moment> next_;  // takes the place of first_ when it is old enough
};

}  // namespace tarn::cli
