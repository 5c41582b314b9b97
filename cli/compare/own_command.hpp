// SPDX-License-Identifier: MIT
// own_command: tells commands that this user has recorded from all others. A file's owner does not: a file that was
// copied, downloaded or unpacked, or that tarn itself has written from another user's data, belongs to the user as well.
//
// `tarn profile` seals a command with a key that only this user can read: $XDG_STATE_HOME/tarn/key, or
// ~/.local/state/tarn/key, made at the first recording. Without a key, nothing is this user's own.
// Thread safety: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "profiler/model/recorded_command.hpp"

namespace tarn::cli {

// What makes a command this user's own; "" if there is no key and none can be made.
std::string seal_of(const profiler::recorded_command& command);
bool is_own(const profiler::recorded_command& command);

// A command as a line for a person: folder, variables, words, input; printable.
std::string describe_command(const profiler::recorded_command& command);

// As one word of a shell; printable.
std::string quoted(const std::string& word);

// What `what` names is about to be executed with this user's rights, and this user did not write it: `lines` say what it
// is. Asks at a terminal; elsewhere, and if the answer is no, throws cli_error (refused). `trusted`: --trust-file.
void require_consent(const std::string& file, const std::string& what, const std::string& lines,
                     bool trusted);

// The MAC SipHash-2-4 of 128 bits, as hexadecimal digits.
std::string siphash(const std::uint8_t (&key)[16], std::string_view text);

}  // namespace tarn::cli
