// SPDX-License-Identifier: MIT
// openmetrics: the engine's figures as text of the format OpenMetrics 1.0, without labels for the process: whoever
// collects the text of several processes adds them.
//
// Thread safety: the control thread (command.hpp), which holds no lock.
#pragma once

#include "base/text.hpp"
#include "engine/metrics.hpp"

namespace tarn::control_socket {

#pragma GCC visibility push(hidden)

// Writes all groups, and "# EOF".
void write_openmetrics(text_writer& out);

// Writes one group. Its members are gathered first, since all samples of a metric must stand together, and those that
// agree in their labels are added: two pools may have one name. Beyond most_members, they are added to "(others)".
inline constexpr unsigned most_members = 1000;
void write_group(text_writer& out, const metric_group& group);

// What the kernel says of the process and its limit.
extern const metric_group process_metrics;

#pragma GCC visibility pop

}  // namespace tarn::control_socket
