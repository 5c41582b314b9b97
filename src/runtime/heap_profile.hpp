// SPDX-License-Identifier: MIT
// heap_profile: what the program has allocated, and where, estimated from samples (sampling/heap_samples.hpp): switched
// on and off at run time, and written as a profile of pprof (profile.proto, not compressed).
//
// Thread safety: any thread, without a lock of the engine. Not in signal handlers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn::heap_profile {

#pragma GCC visibility push(hidden)

// Bytes that are allocated between two samples, on average, if the program asks for no other rate.
inline constexpr std::size_t default_rate = std::size_t{512} << 10;

// Begins to sample; `rate` as above, at least 1. What is known from before stays. Each thread follows at once, or, for
// small blocks of other threads, after it has allocated about 512 KiB more of a size.
void start(std::size_t rate);
// Takes no further samples. Those that live are followed until they are freed.
void stop();
// 0: no samples are taken.
[[nodiscard]] std::size_t rate();

// What a profile shows first; each has all figures.
enum class view : std::uint8_t { heap, allocations };

// Receives the next `n` bytes of a profile. It may block, allocate and free.
using receiver = void (*)(void* context, const char* data, std::size_t n);

// Writes a profile by calls of write(context, data, n), at most 4 KiB each, in the calling thread. Holds no lock during
// these calls. False: there is no memory for it, and nothing was written. If no sample was ever taken, the profile is
// valid and has none.
bool write(view shown, receiver write, void* context);

#pragma GCC visibility pop

}  // namespace tarn::heap_profile
