// SPDX-License-Identifier: MIT
// interleaved_rounds: measures several ways in rounds. Each round measures every way once, in a new random order, and
// memory is touched and released before each measurement. So a way gains nothing from its position, and what changes on
// the machine affects all ways alike. A way that has failed is not measured again.
//
//     round 1:  way 2   way 1   way 3        one measurement each
//     round 2:  way 3   way 2   way 1
//
// The calling process must have one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "cli/compare/progress_line.hpp"

namespace tarn::cli {

struct measured_way {
  std::string name;                      // in the progress line
  std::uint64_t conditioning_bytes = 0;  // memory that is touched and released before each measurement
};

class interleaved_rounds {
 public:
  interleaved_rounds(std::vector<measured_way> ways, bool progress, std::uint64_t seed);

  // Calls measure(index) for each way that has not failed. `title` names the round in the progress line; `rounds_left`
  // counts this round and those after it, 0 if their number is not known yet.
  void run_round(const std::string& title, int rounds_left, const std::function<void(std::size_t)>& measure);
  // The way is not measured any more: it has failed, or has been measured enough.
  void fail(std::size_t way);
  [[nodiscard]] bool has_failed(std::size_t way) const { return failed_[way]; }
  [[nodiscard]] std::size_t ways_left() const;
  [[nodiscard]] bool have_all_failed() const;

  // Shows or updates the progress line of the current measurement.
  void show_progress();
  void clear_progress() { progress_.clear(); }

 private:
  std::vector<measured_way> ways_;
  std::vector<bool> failed_;
  progress_line progress_;
  std::mt19937_64 random_;
  // Of the current measurement.
  std::size_t current_ = 0;
  std::string title_ = "warm-up";
  double began_ = 0;
  std::size_t measurements_left_ = 0;  // with this one; 0: not known
  // Of all measurements so far.
  double seconds_ = 0;
  std::size_t measurements_ = 0;
};

// Estimated seconds until the end of `measurements` more measurements, the first of which began `elapsed` seconds ago.
// If that one takes longer than `seconds_each`, it is assumed to end at any moment.
double seconds_left(std::size_t measurements, double seconds_each, double elapsed);

}  // namespace tarn::cli
