// SPDX-License-Identifier: MIT
// report_page: the report's page without data, bundle/report.html, as the build put it into this library. In it,
// @TITLE@ stands before @DATA@, each once.
#pragma once

#include <string_view>

namespace tarn::profiler {

std::string_view report_page();

}  // namespace tarn::profiler
