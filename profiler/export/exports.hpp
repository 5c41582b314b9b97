// SPDX-License-Identifier: MIT
// exports: a profile in the formats of other tools. Each function returns the whole file, or, if the file may be
// large, passes it in pieces to `take`. No state; any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/export/metrics.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// By type_evidence.
inline constexpr const char* evidence_names[] = {"none", "allocator", "constructor", "vtable"};

// profile.proto of pprof, gzip'ed. One sample type for each metric of `shown`, the first by default; a type, or in mode
// faults the name of the mapping, is the label "type". Read by go tool pprof, Pyroscope, Parca, Perfetto, speedscope.
std::string export_pprof(const profile& p, std::span<const metric> shown = metrics());

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
  std::string damage = {};     // of read_events()
};
// heaptrack's text, passed in pieces to `take`. A profile with all events (mode full) is written as recorded.
// Otherwise events are generated such that allocations, bytes, and blocks alive at the peak and at the end agree
// with each site's figures. `path`: the file that p was loaded from; empty: its events are not used. Throws
// profile_error.
heaptrack_outcome export_heaptrack(const profile& p, const std::string& path,
                                   const std::function<void(std::string_view)>& take);

// A database of SQLite, with its tables as docs/reference/sqlite.md has them. Throws profile_error, also where the library is
// missing.
void export_sqlite(const profile& p, const std::function<void(std::string_view)>& take);

struct export_request {
  const profile& p;
  std::string path;    // the file that p was loaded from
  const metric& what;  // of formats that have one metric
  std::size_t most = 100;
};
struct export_notes {
  std::vector<std::string> approximations = {};  // sentences: how the format approximates the profile
  std::string damage = {};                       // of what only the export reads
};
using export_taker = std::function<void(std::string_view)>;

struct export_format {
  const char* option;
  const char* help;
  profile_detail detail;    // the parts of the profile that the format contains
  const char* binary_name;  // null: text, which a terminal can show
  bool is_packed;           // by the ending of the file's name
  export_notes (*write)(const export_request& request, const export_taker& take);  // throws profile_error
};

export_notes notes_of(const heaptrack_outcome& outcome);

// A new format is a row here, and a file with its function.
inline constexpr export_format export_formats[] = {
    {"--pprof", "Format: pprof's profile.proto, compressed by gzip", profile_detail::figures, "profile.pb.gz",
     false,
     [](const export_request& from, const export_taker& take) {
       take(export_pprof(from.p));
       return export_notes();
     }},
    {"--collapsed", "Format: collapsed stacks, one line per call path, for flame graphs",
     profile_detail::figures, nullptr, false,
     [](const export_request& from, const export_taker& take) {
       export_collapsed(from.p, from.what, take);
       return export_notes();
     }},
    {"--heaptrack", "Format: heaptrack's text; compressed if FILE ends in .zst or .gz", profile_detail::all,
     nullptr, true,
     [](const export_request& from, const export_taker& take) {
       return notes_of(export_heaptrack(from.p, from.path, take));
     }},
    {"--json", "Format: JSON with all figures of all sites", profile_detail::all, nullptr, false,
     [](const export_request& from, const export_taker& take) {
       export_json(from.p, take);
       return export_notes();
     }},
    {"--sqlite", "Format: a database of SQLite, for SQL, DuckDB and pandas", profile_detail::all,
     "profile.sqlite", false,
     [](const export_request& from, const export_taker& take) {
       export_sqlite(from.p, take);
       return export_notes();
     }},
    {"--prometheus", "Format: Prometheus' text, by site", profile_detail::figures, nullptr, false,
     [](const export_request& from, const export_taker& take) {
       take(export_prometheus(from.p, from.most));
       return export_notes();
     }},
};

}  // namespace tarn::profiler
