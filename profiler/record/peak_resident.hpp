// SPDX-License-Identifier: MIT
// peak_resident: the most memory that this process has had resident since its exec, as the kernel counts it (VmHWM).
// Allocates nothing, takes no lock, leaves no descriptor open; any thread. Changes errno of nobody.
#pragma once

#include <cstdint>

namespace tarn::profiler::recorder {

// 0: /proc does not tell.
std::uint64_t peak_resident_bytes();

}  // namespace tarn::profiler::recorder
