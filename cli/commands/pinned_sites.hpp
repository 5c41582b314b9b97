// SPDX-License-Identifier: MIT
// pinned_sites: tarn sites --by pinned: which sites' live blocks keep memory resident that malloc could otherwise give
// back, at the last reading of the profile; and what would help where the figures say so.
#pragma once

#include <cstddef>
#include <string>

#include "profiler/model/profile.hpp"

namespace tarn::cli {

struct pinned_choice {
  std::string filter;  // in the function or the file
  std::size_t most = 20;
  bool json = false;
};

// Prints the table. Throws cli_error (refused) if the profile does not tell.
void show_pinned_sites(const profiler::profile& p, const std::string& path, const pinned_choice& choice);

}  // namespace tarn::cli
