// SPDX-License-Identifier: MIT
// process_random: numbers that differ between processes and cannot be guessed from outside, without a system call.
//
// A number is the keyed hash SipHash-2-4 of purpose and index, under the 16 random bytes that the kernel gives each
// program at its start (AT_RANDOM). libc takes its stack guard from the same bytes; the hash is one-way, so a leaked
// number reveals neither those bytes nor the numbers of another purpose. A forked child has its parent's numbers.
// Thread safety: all functions may be called by any thread, also before constructors.
#pragma once

#include <cstdint>

namespace tarn::os {

enum class random_purpose : std::uint32_t { free_mark, address, slot_choice };

// `index` selects one of several numbers of the same purpose.
std::uint64_t process_random(random_purpose purpose, std::uint32_t index = 0);

// The hash alone. `key`: 16 bytes.
std::uint64_t keyed_hash(const void* key, std::uint64_t message);

}  // namespace tarn::os
