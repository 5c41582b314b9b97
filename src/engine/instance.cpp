// SPDX-License-Identifier: MIT
#include "engine/instance.hpp"

namespace tarn::engine {

constinit page_map map;
constinit first_written tiers;
constinit central central_tier{metadata, blocks, map, heap};
constinit guarded_blocks guards;
constinit sample_windows guard_windows;
constinit byte_samples profile_samples;
constinit heap_samples samples{metadata, map, central_tier};
constinit std::atomic<std::size_t> large_bytes{0};
constinit std::atomic<std::size_t> arena_bytes{0};
constinit warm_spans warm_large_spans;
constinit std::atomic<bool> scopes_checked{false};
constinit thread_cache no_cache{thread_cache::empty_tag{}};

// Nothing refers to it but a reader of core files. Not constant: the data that a program never writes to is in no core file.
namespace {

[[gnu::used]] constinit core_root root{core_magic,        &root,        sizeof(core_root),
                                       sizeof(call_site), TARN_VERSION, profile_samples.mean_place(),
                                       samples.places()};

}  // namespace

thread_local constinit thread_cache* local_cache = &no_cache;
thread_local constinit allocation_bins* allocating = &no_cache;
thread_local constinit processor_use processor_user;
thread_local constinit byte_countdown profile_countdown;
thread_local constinit traffic uncached_traffic;
thread_local constinit traffic* noted_traffic = nullptr;

}  // namespace tarn::engine
