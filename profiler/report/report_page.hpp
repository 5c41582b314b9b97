// SPDX-License-Identifier: MIT
// report_page: the report's page without data, bundle/report.html, embedded in this library by the build. It
// contains @TITLE@ before @DATA@, each once.
#pragma once

#include <string_view>

namespace tarn::profiler {

std::string_view report_page();

}  // namespace tarn::profiler
