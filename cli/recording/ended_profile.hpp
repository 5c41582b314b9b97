// SPDX-License-Identifier: MIT
// ended_profile: the profile of a process that has ended, from its black box and what was read beside it. Any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/recording/box_readings.hpp"
#include "profiler/model/box_profile.hpp"

namespace tarn::cli {

struct box_end {
  std::optional<int> status;  // as of waitpid; empty: nobody knows
  profiler::shortage shortage = profiler::shortage::none;
  std::optional<double>
      peak_resident;  // of the process and its children, in bytes, where the system has told its parent
  std::uint64_t time_ns = 0;  // since 1970, when it was seen; 0: it was not
};

profiler::profile ended_profile(const box_readings& of, const profiler::box_content& box, const box_end& end);

}  // namespace tarn::cli
