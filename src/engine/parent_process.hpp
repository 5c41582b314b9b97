// SPDX-License-Identifier: MIT
// parent_process: what the process that started this one was started with. It reads /proc, so it is for errors only.
#pragma once

namespace tarn {

// Whether the parent process has this library, too, and began with the same `variable` ("NAME=VALUE"), so that it has
// reported whatever is wrong with it. False if that cannot be found out.
bool parent_has_reported(const char* variable);

}  // namespace tarn
