// SPDX-License-Identifier: MIT
// symbols: what the addresses of a profile mean, and which types its sites allocate, by the files that the program was
// loaded from. Done after the run, by whoever has these files.
//
// Cost: some ms for each file of ordinary size, a second for the largest; memory for the DWARF information of one
// program.
#pragma once

#include <string>
#include <vector>

#include "profiler/analyze/debug_files.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Fills p.symbols, and `type` and `evidence` of sites where they were not known or are now known better. An address
// whose file is gone, is another one now (by its build-id), or says nothing about it, stays without a symbol: frames_of
// then shows module and offset. Debugging information is also looked for in files of its own (debug_files.hpp). Names and
// types are printable().
//
// A type is
//  - allocator: named by the function that got the memory, inlined at the return address or not (std::allocator's and
//    make_unique's, members of basic_string); certain.
//  - constructor: that of the first constructor that runs right behind the return address; a guess. So is one of a
//    function that the compiler seems to have put in the place of another with equal code.
//
// Returns what could not be done, as sentences; also in p.meta["symbol_notes"].
std::vector<std::string> add_symbols(profile& p, const symbol_settings& settings = {});

// Whether that has been done: lines of scripts are in a profile from the start.
bool has_native_symbols(const profile& p);
// Whether an address in a file has no name.
bool lacks_native_symbols(const profile& p);

}  // namespace tarn::profiler
