// SPDX-License-Identifier: MIT
// profile_copy: copies a profile that is still being written into a complete file of its own, with symbols. Any
// thread.
#pragma once

#include <string>

namespace tarn::cli {

// Copies up to the last complete checkpoint. `to` empty: a new file in the current directory, named after `from`.
// Returns its path; throws profile_error.
std::string copy_profile(const std::string& from, const std::string& to);

}  // namespace tarn::cli
