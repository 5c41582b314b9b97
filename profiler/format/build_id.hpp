// SPDX-License-Identifier: MIT
// build_id: the text by which the profiler knows a file again: its build-id in lower-case hexadecimal. A pure function.
#pragma once

#include <string>
#include <string_view>

namespace tarn::profiler {

std::string build_id_text(std::string_view bytes);

}  // namespace tarn::profiler
