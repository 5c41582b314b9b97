// SPDX-License-Identifier: MIT
// store_profile: writes a profile into its file, all tables except `events`. Called repeatedly while the program
// runs (each call is a checkpoint), or once. A reader uses the last complete checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profiler/format/table_file.hpp"
#include "profiler/model/packed_sites.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// How many rows of the tables that only grow are in the file already.
struct stored_rows {
  std::size_t modules = 0;
  std::size_t stacks = 1;  // node 0 is not in the file
  struct history {
    std::size_t rows = 0;
    std::uint64_t last_ns = 0;  // time of the last of these
  } counters, memory;
};

// Appends the new rows of modules, stacks, counters and memory, and all other tables completely. Requires: modules, stacks
// and sites have only grown since the last call, in the same order; except that after p.stacks_changed all stacks are stored.
// Where rows of counters or memory before the last stored one were removed or added, that table is stored anew. Symbols are left
// out if there are none. Throws profile_error; what was appended until then is to be cut off, and `already` to be set back.
void store_profile(table_writer& out, const profile& p, stored_rows& already);
// For a profile that is written once.
void store_profile(table_writer& out, const profile& p);
// For a profile that is written once, with these sites in place of p.sites.
void store_profile(table_writer& out, const profile& p, packed_sites& sites);

// Writes the table of symbols, the only one that is made after the run.
void store_symbols(table_writer& out, const profile& p);

// The content of the table meta: p.meta, and figures that have no table of their own.
nlohmann::json stored_meta(const profile& p);

const char* mode_name(profile_mode mode);

}  // namespace tarn::profiler
