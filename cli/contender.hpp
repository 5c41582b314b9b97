// SPDX-License-Identifier: MIT
// contender: an allocator that `tarn compare` measures, and how the list of them is made.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "environment.hpp"
#include "program_target.hpp"

namespace tarn::cli {

struct contender {
  std::string name;
  std::string library;  // empty: the program as it is, on the system's malloc
  std::vector<std::pair<std::string, std::string>> variables = {};  // set for it besides
  bool keeps_preloads = false;  // with the malloc that LD_PRELOAD names already
};

inline constexpr const char* system_name = "system";
inline constexpr const char* tarn_name = "tarn";

// The system's malloc, tarn, each known allocator that is installed, and those of `with`
// ("NAME=LIB"; a known name is replaced). `only` keeps the named ones, in the usual order. Throws
// cli_error for a malformed or unknown name, a bad library, or when tarn is wanted and not found.
// `others` are names that `only` may hold besides, and that no library may take: what the caller
// compares with allocators.
std::vector<contender> choose_contenders(const std::vector<std::string>& with,
                                         const std::vector<std::string>& only,
                                         const std::vector<std::string>& others = {});

// What the program is started with under `who`. A malloc that LD_PRELOAD already names is left out
// for all that do not keep it, so that "system" is the system's.
environment environment_for(const contender& who);

// The libraries in LD_PRELOAD that replace malloc.
std::vector<std::string> preloaded_allocators();

// Checks that the program will use its library; for "system", returns the library that supplies
// malloc when that is not the C library. Throws cli_error.
std::optional<std::string> verify_contender(const contender& who, const program_target& target);

}  // namespace tarn::cli
