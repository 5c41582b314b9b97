// SPDX-License-Identifier: MIT
#include "cli/compare/interleaved_rounds.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "cli/launch/child_process.hpp"
#include "cli/launch/memory_conditioner.hpp"

namespace tarn::cli {

double seconds_left(std::size_t measurements, double seconds_each, double elapsed) {
  if (measurements == 0) return 0;
  return static_cast<double>(measurements - 1) * seconds_each + std::max(0.0, seconds_each - elapsed);
}

interleaved_rounds::interleaved_rounds(std::vector<measured_way> ways, bool progress, std::uint64_t seed)
    : ways_(std::move(ways)), failed_(ways_.size()), progress_(progress), random_(seed) {}

void interleaved_rounds::fail(std::size_t way) { failed_[way] = true; }

std::size_t interleaved_rounds::ways_left() const {
  return static_cast<std::size_t>(std::count(failed_.begin(), failed_.end(), false));
}

bool interleaved_rounds::have_all_failed() const { return ways_left() == 0; }

void interleaved_rounds::run_round(const std::string& title, int rounds_left,
                                   const std::function<void(std::size_t)>& measure) {
  std::vector<std::size_t> order(ways_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [this](std::size_t way) { return has_failed(way); });
  std::shuffle(order.begin(), order.end(), random_);
  title_ = title;
  for (std::size_t place = 0; place < order.size(); ++place) {
    current_ = order[place];
    measurements_left_ = 0;
    if (rounds_left > 0)
      measurements_left_ = order.size() - place + static_cast<std::size_t>(rounds_left - 1) * ways_left();
    condition_memory(ways_[current_].conditioning_bytes);
    began_ = monotonic_seconds();
    show_progress();
    measure(current_);
    seconds_ += monotonic_seconds() - began_;
    ++measurements_;
  }
}

void interleaved_rounds::show_progress() {
  std::string text = title_ + ": " + ways_[current_].name;
  if (measurements_ != 0 && measurements_left_ != 0) {
    const double left = seconds_left(measurements_left_, seconds_ / static_cast<double>(measurements_),
                                     monotonic_seconds() - began_);
    text += fmt::format(", about {:.0f} s left", std::ceil(left));
  }
  progress_.show(text);
}

}  // namespace tarn::cli
