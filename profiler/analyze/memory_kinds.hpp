// SPDX-License-Identifier: MIT
// memory_kinds: what resident memory consists of, in words, and the parts of a kind by place. Pure; any thread.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct memory_kind {
  const char* name;  // the member of memory_row, and `kind` of its parts
  const char* text;
  double memory_row::*member;
};

// The kinds in the order in which they are shown. Their sum is memory_row::sum().
inline constexpr std::array memory_kinds = {
    memory_kind{"live", "live blocks, by requested size", &memory_row::live},
    memory_kind{"rounding", "rounding loss of live blocks", &memory_row::rounding},
    memory_kind{"kept", "kept by malloc: free blocks, caches, its own data", &memory_row::kept},
    memory_kind{"mapped", "mapped by the program itself", &memory_row::mapped},
    memory_kind{"files", "code and data of files, in the page cache", &memory_row::files},
    memory_kind{"written", "static data that was written to", &memory_row::written},
    memory_kind{"stacks", "stacks of threads", &memory_row::stacks},
    memory_kind{"shared", "shared memory", &memory_row::shared},
    memory_kind{"recorder", "tarn's recorder", &memory_row::recorder},
    memory_kind{"other", "other memory without a file", &memory_row::other},
};

// The kind of this name; there is one.
const memory_kind& kind_named(std::string_view name);

// The kind in words. Where no block is known (mode faults), what is called kept may be live as well.
const char* text_of(const memory_kind& kind, const profile& p);

// A site's place or a file, with the sum of its parts.
struct placed_memory {
  // Of a file: its name as the function. If the profile has neither place nor file: "[all smaller ones]".
  source_frame where;
  double bytes = 0;
  double variance = 0;
};

// The upper end of the kind's interval: no part of it has more.
double most_of(const memory_row& row, const memory_kind& kind);
// The parts of one kind of a row, the largest first. Empty for rows that the profile keeps no parts of.
std::vector<placed_memory> placed_parts(const profile& p, const memory_row& row, const memory_kind& kind);

}  // namespace tarn::profiler
