// SPDX-License-Identifier: MIT
// memory_conditioner: touches memory and releases it before a measured run. A virtual machine's
// freed pages go back to its host, and touching them again costs several times as much; without
// this, who runs after a contender that freed much looks slow.
#pragma once

#include <cstdint>

namespace tarn::cli {

// What a process may still take: the system's available memory, what is left of the control group's
// limit, or the limit of address space (ulimit -v), whichever is least.
std::uint64_t available_bytes();

// 256 MiB, or an eighth of what is available if that is less; all limits count.
std::uint64_t default_conditioning_bytes();

// Does its work in a child, so that this process's peak memory is not raised. A failure is harmless
// and silent: the run is then merely not preceded by it.
void condition_memory(std::uint64_t bytes);

}  // namespace tarn::cli
