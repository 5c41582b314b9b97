// SPDX-License-Identifier: MIT
// man_page: manual pages in man(7), for groff and mandoc: tarn(1), and tarn-VERB(1) for each verb. The date is that of
// SOURCE_DATE_EPOCH (seconds since 1970) if it is set, so that a build can be repeated exactly. Any thread.
#pragma once

#include <span>
#include <string>

#include "cli/manual/verb.hpp"

namespace tarn::cli {

std::string man_page(const command& app);
std::string overview_man_page(std::span<const verb> verbs);

}  // namespace tarn::cli
