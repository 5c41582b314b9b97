// SPDX-License-Identifier: MIT
// live_page: the page at / of `tarn serve`: reads /metrics each second and draws the figures. It needs nothing else.
#pragma once

#include <string>

namespace tarn::cli {

std::string live_page();

}  // namespace tarn::cli
