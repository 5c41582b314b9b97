// SPDX-License-Identifier: MIT
// live_profile: a heap profile for stores that keep the profiles of many processes: its live memory, in pprof's format or in
// OpenTelemetry's (OTLP, profiles v1development). Stores add up the profiles of a time, so figures since a process's start
// (alloc_space) would be counted once for each profile; they are left out.
//
// The profile is one that pprof_names has written. It may have come from any process, and is only limited by its length. Pure
// functions; any thread. Errors are profile_error: it is no profile, or has no live memory's figures.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace tarn::profiler {

// The sample types "inuse_…", and the places that hold something. Not packed.
std::string live_profile(std::string_view profile);

// As the body of a request to an OTLP receiver, not packed: a profile for each sample type of `profile`, which is one of
// live_profile(). `resource`: attributes of the process, by OpenTelemetry's names. `version`: of tarn.
std::string otlp_profiles(std::string_view profile, const std::map<std::string, std::string>& resource,
                          std::string_view version);

}  // namespace tarn::profiler
