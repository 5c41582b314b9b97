// SPDX-License-Identifier: MIT
// heap_profile: what the program has allocated, and where, estimated from samples (samples/followed/heap_samples.hpp): switched
// on and off at run time, and written as a profile of pprof (profile.proto, not compressed).
//
// Thread safety: any thread, without a lock of the engine. Not in signal handlers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tarn/malloc.h"

namespace tarn::heap_profile {

#pragma GCC visibility push(hidden)

// Begins to sample, as the option profile, with `rate` bytes between two samples on average; 0: byte_samples::default_mean.
// What is known from before stays. False: the rate is above 1 GiB.
bool start(std::size_t rate);
// Takes no further samples. Those that live are followed until they are freed.
void stop();
// 0: no samples are taken.
[[nodiscard]] std::size_t rate();

// What a profile shows first; each has all figures.
enum class view : std::uint8_t { heap, allocations };

using site_visitor = void (*)(void* context, const tarn_profile_site* site);

// As tarn_visit_profile(), in the order of their first samples. False: there is no memory for them.
bool visit_sites(site_visitor visit, void* context);

// Receives the next `n` bytes of a profile. It may block, allocate and free.
using receiver = void (*)(void* context, const char* data, std::size_t n);

// Writes a profile by calls of write(context, data, n), at most 4 KiB each, in the calling thread. Holds no lock during
// these calls. False: there is no memory for it, and nothing was written. If no sample was ever taken, the profile is
// valid and has none.
bool write(view shown, receiver write, void* context);
// The same, with heap as the view, into a file. 0; ENOMEM; or the system's error.
int dump(int descriptor);

#pragma GCC visibility pop

}  // namespace tarn::heap_profile
