// SPDX-License-Identifier: MIT
// pushed_labels: what a store tells the profiles of a fleet's processes apart by. A process says it in the variables that
// OpenTelemetry's SDKs and Kubernetes use; no others of its environment are read. Any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "cli/control/push_store.hpp"

namespace tarn::cli {

// "service.version=1.2". Throws cli_error (usage).
process_labels parse_labels(const std::vector<std::string>& words);

// service.name, process.pid, process.executable.build_id.gnu, host.name, k8s.pod.name, and what OTEL_RESOURCE_ATTRIBUTES has
// (service.version), as far as they are known, 24 at most. `given` comes before what the process says. Values are printable.
process_labels labels_of(pid_t process, const process_labels& given);

}  // namespace tarn::cli
