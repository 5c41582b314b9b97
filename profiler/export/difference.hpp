// SPDX-License-Identifier: MIT
// difference: what changed from one profile to another, in all and by site, and whether that is too much. Sites are the same
// where the functions of their call paths and their types are; lines and addresses may differ.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiler/export/metrics.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct change {
  double before = 0;
  double after = 0;
  double amount() const noexcept { return after - before; }
  // 0.05 is 5 % more; infinite where there was nothing before; 0 where there is nothing at all.
  double share() const noexcept;
};

struct site_change {
  source_frame where;  // site_label
  std::string type;
  std::vector<change> values;  // in the order of metrics()
};

struct difference {
  std::vector<change> totals;  // in the order of metrics()
  std::vector<site_change> sites;

  static difference between(const profile& before, const profile& after);
};

// "[site.]METRIC > or < AMOUNT": AMOUNT is a change, in percent ("+5%") or in the metric's unit, for bytes with K, M, G,
// for times with ns, us, ms, s.
struct change_limit {
  std::string text;
  std::size_t metric_index = 0;  // of metrics()
  bool of_each_site = false;
  bool is_share = false;
  bool is_upper = true;
  double amount = 0;

  // Throws std::invalid_argument, which says what is wrong.
  static change_limit parse(std::string_view text);
};

// Where the change is beyond the limit: sentences, none where it is kept. A site counts where the metric's value is at least
// 1 % of the total, before or after.
std::vector<std::string> exceeded(const difference& changes, const change_limit& limit);

}  // namespace tarn::profiler
