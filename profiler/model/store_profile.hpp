// SPDX-License-Identifier: MIT
// store_profile: a profile into its file, all tables but `events`. Called again and again while the program runs (a
// checkpoint each), or once. A reader takes the last checkpoint that is whole.
#pragma once

#include <cstddef>

#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// How much of the tables that continue is in the file already.
struct stored_rows {
  std::size_t modules = 0;
  std::size_t stacks = 1;  // node 0 is not in the file
  std::size_t counters = 0;
};

// Appends what is new of modules, stacks and counters, and all of the rest. Requires: modules, stacks, counters and sites
// have only grown since the last call, and kept their order. The symbols are left out where there are none. Throws
// profile_error.
void store_profile(table_writer& out, const profile& p, stored_rows& already);
// Once only.
void store_profile(table_writer& out, const profile& p);

// The one table that is made after the run.
void store_symbols(table_writer& out, const profile& p);

// The content of the table meta: p.meta, and the figures that have no table of their own.
nlohmann::json stored_meta(const profile& p);

const char* mode_name(profile_mode mode);

}  // namespace tarn::profiler
