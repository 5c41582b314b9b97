// SPDX-License-Identifier: MIT
// fault_rates: what page faults cost per second, from two readings of the counters and the prices; and the lines in
// which `tarn cost --watch` shows it.
// Pure functions; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "fault_counters.hpp"
#include "memory_prices.hpp"

namespace tarn::cli {

struct fault_rates {
  double faults = 0;  // per second, as are the next two
  double major_faults = 0;
  double huge_faults = 0;
  double fault_share = 0;    // seconds per second, by the prices: in all page faults
  double zeroing_share = 0;  // of it, at most: in zeroing
  double fresh_bytes = 0;    // per second, at most: memory that was backed
  double user_share = 0;     // of the time of all processors; of a process: of one processor's
  double system_share = 0;
};

// `seconds` lie between the readings. Counters that have gone back (a child was being reaped) count as unchanged.
fault_rates rates_of(const fault_counters& difference, double seconds, const memory_prices& prices);

// `huge`: with the column of huge pages, which are counted for the whole machine only.
std::string rates_heading(bool huge);
std::string rates_line(double at_seconds, const fault_rates& rates, bool huge);
// "average over 12 s: …"
std::string rates_summary(double seconds, const fault_rates& rates);
// Whether that is much, and what to do about it.
std::string rates_judgement(const fault_rates& rates);
nlohmann::json as_json(const fault_rates& rates);

}  // namespace tarn::cli
