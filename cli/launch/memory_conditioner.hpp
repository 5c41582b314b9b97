// SPDX-License-Identifier: MIT
// memory_conditioner: touches memory and releases it before a measured run. A virtual machine returns freed pages
// to its host, and touching them again costs several times as much; without this, whatever runs after a contender
// that freed much would look slow.
#pragma once

#include <cstdint>

namespace tarn::cli {

// How much memory a process may still use: the least of the system's available memory, the remainder of the control
// group's limit, and the limit of address space (ulimit -v).
std::uint64_t available_bytes();

// 256 MiB, or an eighth of what is available if that is less; all limits count.
std::uint64_t default_conditioning_bytes();

// Works in a child, so that this process's peak memory does not grow. A failure is silent and harmless: the run is
// then just not preceded by it.
void condition_memory(std::uint64_t bytes);

}  // namespace tarn::cli
