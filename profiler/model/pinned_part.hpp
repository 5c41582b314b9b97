// SPDX-License-Identifier: MIT
// pinned_part: the name of that part of memory_row::kept which lies near no live block. The other parts of `kept` have the
// sites whose blocks pin them. In a profile that holds samples of the blocks only, `kept` has no parts.
#pragma once

namespace tarn::profiler {

inline constexpr const char* pinned_by_nobody = "[near no live block]";

}  // namespace tarn::profiler
