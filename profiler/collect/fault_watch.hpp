// SPDX-License-Identifier: MIT
// fault_watch: the page faults of a process that runs, watched for some seconds: which code touched which memory for the
// first time. The kernel takes samples of them (fault_events); the process is not stopped, and nothing is loaded into it.
// Needs the rights of fault_events.
#pragma once

#include <cstdint>
#include <functional>

#include "profiler/analyze/debug_files.hpp"
#include "profiler/collect/fault_events.hpp"
#include "profiler/collect/memory_regions.hpp"
#include "profiler/collect/process_model.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Adds the fault to the model: at the call path that touched the memory, and at the name of the mapping.
// `start_ns`: time 0 of the model.
void add_touch(process_model& model, const memory_regions& regions, const page_fault& fault,
               std::uint64_t start_ns);

// A profile of mode faults, with symbols, of what the process faulted in during `seconds`, or less: until it ends, or
// until `stop()` is true, which is asked some hundred times a second. Throws profile_error: the faults cannot be seen,
// or there is no such process. Any thread.
profile watch_faults(std::uint32_t process, double seconds, const std::function<bool()>& stop,
                     const symbol_settings& symbols = {});

}  // namespace tarn::profiler
