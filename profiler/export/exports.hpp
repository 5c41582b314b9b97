// SPDX-License-Identifier: MIT
// exports: a profile in the formats of other tools. Each function returns the whole file, or, if the file may be
// large, passes it in pieces to `take`. No state; any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "profiler/export/metrics.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// profile.proto of pprof, gzip'ed. One sample type per metric, `cost` by default; a type is the label "type". Read by go
// tool pprof, Pyroscope, Parca, Perfetto, speedscope.
std::string export_pprof(const profile& p);

// A line per call path: "outermost;...;innermost VALUE", for flamegraph.pl and its relatives. Rows of 0 are left out.
void export_collapsed(const profile& p, const metric& what,
                      const std::function<void(std::string_view)>& take);

// Everything except events, with names instead of addresses.
void export_json(const profile& p, const std::function<void(std::string_view)>& take);

// Text for a scrape or a push gateway: each metric of the `most` costliest sites, and of the others together.
std::string export_prometheus(const profile& p, std::size_t most = 100);

// How the heaptrack export approximated the profile.
struct heaptrack_outcome {
  bool from_events = false;    // the events are the recorded ones; false: they were generated from the sums
  double each_stands_for = 1;  // this many allocations are combined into one of their total size
};
// heaptrack's text, passed in pieces to `take`. A profile with all events (mode full) is written as recorded.
// Otherwise events are generated such that allocations, bytes, and blocks alive at the peak and at the end agree
// with each site's figures. `path`: the file that p was loaded from; empty: its events are not used. Throws
// profile_error.
heaptrack_outcome export_heaptrack(const profile& p, const std::string& path,
                                   const std::function<void(std::string_view)>& take);

}  // namespace tarn::profiler
