// SPDX-License-Identifier: MIT
// The gate of _exit and its other name, by which processes end without exit handlers: a black box is to tell them from those
// that a signal has ended. In a child of vfork, whose memory is its parent's, the box sees that the process is another one.
#include <unistd.h>

#include "background/rights/next.hpp"
#include "engine/instance.hpp"
#include "tarn/malloc.h"

extern "C" {
TARN_API void _exit(int status) {
  tarn::engine::samples.box().end(status);
  tarn::rights::next<void(int)>(tarn::rights::call::exit_at_once)(status);
  __builtin_unreachable();
}
[[gnu::alias("_exit")]] TARN_API void _Exit(int status) noexcept;
}
