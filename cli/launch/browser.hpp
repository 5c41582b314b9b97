// SPDX-License-Identifier: MIT
// browser: shows a file to the user.
#pragma once

#include <string>

namespace tarn::cli {

// Starts $BROWSER with the file, or else the first of the programs by which desktops open files, and returns once that
// has started or handed the file on. $BROWSER may have arguments, and several programs separated by ":". Throws cli_error
// (refused) if no program takes the file.
void open_in_browser(const std::string& path);

}  // namespace tarn::cli
