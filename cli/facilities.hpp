// SPDX-License-Identifier: MIT
// facilities: what this system lets a profile see: each facility of the kernel tried out here and now, what a profile
// misses without it, and how to get it. Reads /proc and /sys and tries system calls on this process alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tarn::cli {

enum class standing { works, partly, missing, note };  // note: a fact that is neither good nor bad

struct facility {
  std::string key;
  std::string name;
  standing how = standing::note;
  std::string state;    // what was found
  std::string missing;  // what a profile does without; empty: nothing
  std::string remedy;   // how to get it; empty: there is no way, or no need
};

std::vector<facility> look_at_facilities();
nlohmann::json as_json(const std::vector<facility>& all);

// What a profile's figures rest on: "root", "user, page faults seen", "user, no page faults".
std::string privilege_name();
std::string kernel_name();        // of uname
std::string huge_page_setting();  // "always", "madvise", "never"; empty: it is not told

}  // namespace tarn::cli
