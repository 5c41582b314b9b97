// SPDX-License-Identifier: MIT
// exports: a profile in the formats of other tools. Each gives the whole file's bytes, or, where the file may be large,
// gives it in pieces to `take`. No state; any thread.
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

// All of it but the events: with names in place of addresses.
void export_json(const profile& p, const std::function<void(std::string_view)>& take);

// Text for a scrape or a push gateway: each metric of the `most` costliest sites, and the rest as one.
std::string export_prometheus(const profile& p, std::size_t most = 100);

// What the heaptrack export did to fit.
struct heaptrack_outcome {
  bool from_events = false;    // the order of events is the program's; else it was made up from the sums
  double each_stands_for = 1;  // so many allocations are shown as one of their size together
};
// heaptrack's text, in pieces given to `take`. A profile with all events (mode full) is written as it ran. Else the
// events are made up, so that allocations, bytes, those alive at the peak and at the end agree with each site's figures.
// `path` is the file that p was loaded from; empty: its events are not looked at. Throws profile_error.
heaptrack_outcome export_heaptrack(const profile& p, const std::string& path,
                                   const std::function<void(std::string_view)>& take);

}  // namespace tarn::profiler
