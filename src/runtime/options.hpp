// SPDX-License-Identifier: MIT
// Options: one table of names, defaults, meanings and what a value does. Set from the environment once,
// before the first block is handed out, and by tarn_set_option at any time. The table for people is
// docs/options.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/mutex.hpp"
#include "tarn/malloc.h"

namespace tarn::options {

// Reads TARN_…; unknown names and bad values are reported once, each with what is valid. Ignored where the
// process has more rights than its user (setuid, file capabilities).
void read_environment();

// 0, ENOENT or EINVAL.
int set(const char* name, const char* value);
// 0 or ENOENT.
int describe(std::size_t index, tarn_option& out);

// For fork: guards all that set() changes.
os::mutex& lock();

// Milliseconds after which idle memory goes back; 0 at once, -1 never.
std::int64_t decay_ms();
// Whether there may be a thread: `automatic` where the gates are (decay.hpp), `on` wherever the system lets one start.
enum class background : std::uint8_t { automatic, on, off };
background background_choice();
// Null: none. "stderr", or a path.
const char* statistics_at_exit();

}  // namespace tarn::options
