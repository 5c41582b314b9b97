// SPDX-License-Identifier: MIT
// profile_copy: copies a profile that is still being written, perhaps by another user, into a complete file of its own,
// with symbols. For one thread.
#pragma once

#include <sys/types.h>

#include <string>

#include "cli/launch/peer.hpp"

namespace tarn::cli {

// Copies up to the last complete checkpoint of the open file `from`, the recording of `program`. It may be anything:
// what is no profile makes no file, and a command that this user did not record is left out. `to` empty: a new file
// "tarn-PROGRAM-dump-N.prof" in the current directory. Root looks for symbols with the rights of `of`, and has no others
// afterwards. Returns the copy's path; throws profile_error.
std::string copy_profile(int from, pid_t program, const std::string& to, const peer& of);

}  // namespace tarn::cli
