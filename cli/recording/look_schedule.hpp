// SPDX-License-Identifier: MIT
// look_schedule: when the next look at running processes is due. Looks come in steps of a sixteenth of the time that has passed, so
// that what grows is seen after seconds as after hours: an eighth of the time without a look hides it (ended_profile). They may take a
// small part of the time, and a second more altogether: where a look is dear, those of the first seconds must not be missed.
//
// Invariant: time of all looks <= begin_seconds + look_part * time that has passed + the last look,
// if no look takes more than look_part * longest_rest; each longer one adds the difference.
#pragma once

#include <algorithm>

namespace tarn::cli {

class look_schedule {
 public:
  static constexpr double look_part = 0.01;
  static constexpr double begin_seconds = 1;
  // However long one has taken: the next one may be the last before an end.
  static constexpr double longest_rest = 5;

  // All times in seconds of one clock that never goes back.
  explicit look_schedule(double now) : begun_(now), counted_to_(now), next_(now) {}

  bool is_due(double now) const { return now >= next_; }

  // A look has ended now and taken so much of the processor.
  void note_look(double now, double taken) {
    spare_ += look_part * (now - counted_to_) - taken;
    spare_ = std::clamp(spare_, -look_part * longest_rest, begin_seconds);
    counted_to_ = now;
    const double step = std::clamp((now - begun_) / 16, least_step, most_step);
    next_ = now + std::max(step, -spare_ / look_part);
  }

 private:
  static constexpr double least_step = 0.05;
  static constexpr double most_step = 0.5;

  double begun_;
  double counted_to_;
  double next_;
  double spare_ = begin_seconds;  // what looks may still take
};

}  // namespace tarn::cli
