// SPDX-License-Identifier: MIT
// facilities: the kernel features that profiling uses, each tried here and now: what works, what a profile lacks
// without it, and how to enable it. Reads /proc and /sys, and tries system calls on this process only.
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
  std::string state = {};    // what was found, in words
  std::string missing = {};  // what a profile lacks; empty: nothing
  std::string remedy = {};   // how to enable it; empty: there is no way, or no need
};

std::vector<facility> look_at_facilities();
nlohmann::json as_json(const std::vector<facility>& all);

// The rights that a profile's figures depend on: "root", "user, page faults seen", "user, no page faults".
std::string privilege_name();
std::string kernel_name();        // release from uname
std::string huge_page_setting();  // "always", "madvise", "never"; empty: not known

}  // namespace tarn::cli
