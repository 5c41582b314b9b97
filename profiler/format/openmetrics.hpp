// SPDX-License-Identifier: MIT
// openmetrics: reads what a process says of itself in the format OpenMetrics, and writes it anew, alone or together with
// that of other processes. A process may send anything: of it remain names of a fixed alphabet that begin with "tarn_",
// labels, numbers and help; types and units follow from the names. What cannot be read is left out. So no process can
// take another one's labels, disturb another one's metrics, or make the text invalid.
// Bounds: 100,000 samples of a process. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tarn::profiler {

using metric_labels = std::vector<std::pair<std::string, std::string>>;  // name, value

struct metric_sample {
  std::string labels;  // as they are written, without braces
  std::string value;
};

struct metric_family {
  std::string name;
  bool is_counter = false;  // its samples' names end with "_total"
  std::string help;
  std::vector<metric_sample> samples;
};

// Of one process.
struct metric_list {
  std::vector<metric_family> families;

  // The value of the first sample of this name; 0 if there is none.
  [[nodiscard]] double value_of(std::string_view name) const;
};

metric_list read_metrics(std::string_view text);

// As they are written: a="b",c="d".
std::string written_labels(const metric_labels& labels);

struct labelled_metrics {
  std::string labels;  // of each sample, as written: such as a process may not send
  metric_list metrics;
};

// openmetrics ends with "# EOF"; prometheus is the older format, for clients that do not ask for OpenMetrics.
enum class metrics_format { openmetrics, prometheus };
// All samples of a metric stand together, as the formats demand.
std::string write_metrics(const std::vector<labelled_metrics>& parts, metrics_format format);

}  // namespace tarn::profiler
