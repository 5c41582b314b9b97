// SPDX-License-Identifier: MIT
// profile_copy: a profile that is still being written, as a whole one of its own, with names. Any thread.
#pragma once

#include <string>

namespace tarn::cli {

// Copies up to the last checkpoint. `to` empty: a new file here, named after `from`. Returns its path; throws
// profile_error.
std::string copy_profile(const std::string& from, const std::string& to);

}  // namespace tarn::cli
