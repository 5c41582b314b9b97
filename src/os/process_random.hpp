// SPDX-License-Identifier: MIT
// process_random: numbers that differ from process to process and cannot be guessed from outside, without a system call.
//
// They are the keyed hash SipHash-2-4 of `purpose`, under the 16 random bytes that the kernel hands every program at its
// start (AT_RANDOM). libc takes its stack guard from the same bytes; the hash is one-way, so a number that leaks tells
// neither those bytes nor another purpose's number. A forked child has its parent's numbers.
// Thread safety: all functions may be called by any thread, before any constructor too.
#pragma once

#include <cstdint>

namespace tarn::os {

enum class random_purpose : std::uint32_t { free_mark, place, slot_choice };

// `index` tells several numbers of one purpose apart.
std::uint64_t process_random(random_purpose purpose, std::uint32_t index = 0);

// The hash by itself. `key`: 16 bytes.
std::uint64_t keyed_hash(const void* key, std::uint64_t message);

}  // namespace tarn::os
