// SPDX-License-Identifier: MIT
// openmetrics: text of the format OpenMetrics of several processes as one text: each sample gets labels, and all samples
// of a metric stand together, as the format demands.
// Pure functions; any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tarn::cli {

struct labelled_metrics {
  std::vector<std::pair<std::string, std::string>> labels;  // name, value
  std::string text;
};

// The texts together, with one "# EOF". What is not OpenMetrics text is left out.
std::string merge_openmetrics(const std::vector<labelled_metrics>& parts);

// The same as text of Prometheus' older format, for clients that do not ask for OpenMetrics.
std::string as_plain_metrics(const std::string& openmetrics);

// The value of the first sample of this name; 0 if there is none.
double sample_in(const std::string& text, const std::string& name);

}  // namespace tarn::cli
