// SPDX-License-Identifier: MIT
// engine_thread: the names of the engine's two threads (thread.hpp), and of a hold.
#pragma once

#include <cstdint>

namespace tarn::os {

enum class engine_thread : std::uint8_t { decay, control };
inline constexpr unsigned engine_threads = 2;

// Identifies the control page in which a hold is counted; a child's is another one.
using hold_token = std::uint32_t;

}  // namespace tarn::os
