// SPDX-License-Identifier: MIT
// memory_conditioner: touches memory and releases it before a measured run. A virtual machine returns freed pages
// to its host, and touching them again costs several times as much; without this, whatever runs after a contender
// that freed much would look slow.
#pragma once

#include <cstdint>

namespace tarn::cli {

// How much memory a process may still use: the least of the machine's available memory, the room in the control group
// that has least of it (the process's own, or one above it; versions 1 and 2), and the limits of the process itself
// (ulimit -v and -d).
std::uint64_t available_bytes();

// What tarn may take before or beside a program: a sixteenth of the least limit on this process, its control group, the
// groups above it, and the machine.
std::uint64_t share_of_limit();

// 256 MiB, or share_of_limit() without what the processes themselves need, or an eighth of what is available: the least
// of them.
std::uint64_t default_conditioning_bytes();

// Should the memory of the group or machine run out, the kernel ends this process first, not the program beside it.
void volunteer_for_oom_killer();

// Works in a child, so that this process's peak memory does not grow. A failure is silent and harmless: the run is
// then just not preceded by it.
void condition_memory(std::uint64_t bytes);

}  // namespace tarn::cli
