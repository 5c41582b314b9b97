// SPDX-License-Identifier: MIT
// compared_files: profiles of two sides, loaded one after the other, as a large one takes much memory; and notes on stderr where
// the measurement differed, and not only the program.
#pragma once

#include <string>

#include "profiler/export/difference.hpp"

namespace tarn::cli {

class compared_files {
 public:
  using side = profiler::difference_builder::side;
  // The numbers of files of each side, at least one each.
  compared_files(std::size_t before, std::size_t after) : builder_(before, after) {}

  // For all files before the first add().
  void add_times(const std::string& path, side which);
  // Throws what load_for_command throws.
  void add(const std::string& path, side which);
  // Whether all files have the metric. Requires that they were added, as take().
  [[nodiscard]] bool knows(const profiler::metric& what) const;
  profiler::difference take();

 private:
  void note_what_differs() const;

  profiler::difference_builder builder_;
  bool seen_ = false;
  std::array<bool, profiler::metric_count> lacks_ = {};  // in the order of metrics()
  std::string program_, other_program_;
  profiler::profile_mode mode_ = profiler::profile_mode::sample;
  bool has_other_mode_ = false;
  double fault_ns_ = 0, other_fault_ns_ = 0;
  bool has_box_ = false, has_recording_ = false;
};

}  // namespace tarn::cli
