// SPDX-License-Identifier: MIT
// pprof_profile: a heap profile in pprof's format, as stores of profiles, tarn serve and Go's tools give it, made into a profile:
// what lives, by call path. It may be any bytes, packed ones too: memory is bounded, whatever they say. Any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// By its first bytes: packed by gzip, or the message itself.
bool is_pprof(const std::string& path);

// Sites with what they hold, and what they have allocated if the profile knows that; without costs. Variances are those of samples
// at the profile's period: where values are sums over several profiles of one process, the true ones are larger. Throws
// profile_error, which names `path`.
profile read_pprof(const std::string& path);

}  // namespace tarn::profiler
