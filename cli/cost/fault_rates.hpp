// SPDX-License-Identifier: MIT
// fault_rates: the cost of page faults per second, from two readings of the counters and the prices; and the lines
// that `tarn cost --watch` prints. Pure functions; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/cost/fault_counters.hpp"
#include "cli/cost/memory_prices.hpp"

namespace tarn::cli {

struct fault_rates {
  double faults = 0;  // per second, like the next two
  double major_faults = 0;
  double huge_faults = 0;
  double fault_share = 0;    // cost of all page faults by the prices, in seconds per second
  double zeroing_share = 0;  // upper bound of its part in zeroing
  double fresh_bytes = 0;    // upper bound of the memory backed per second
  double user_share = 0;     // of the time of all processors; for a process: of one processor
  double system_share = 0;
};

// `seconds`: time between the readings. Counters that have gone back (a child was being reaped) count as unchanged.
fault_rates rates_of(const fault_counters& difference, double seconds, const memory_prices& prices);

// `huge`: with the column of huge pages, which are counted only for the whole machine.
std::string rates_heading(bool huge);
std::string rates_line(double at_seconds, const fault_rates& rates, bool huge);
// "average over 12 s: …"
std::string rates_summary(double seconds, const fault_rates& rates);
// Whether the rates are high, and what to do about it.
std::string rates_judgement(const fault_rates& rates);
nlohmann::json as_json(const fault_rates& rates);

}  // namespace tarn::cli
