// SPDX-License-Identifier: MIT
// difference: what changed from one or several recordings of a program to others, in all and by site, how sure that is, and
// whether it is too much. Sites are the same where the functions of their call paths and their types are; lines and
// addresses may differ.
//
// All costs are counted at the prices of the first recording. A change has an interval, in which it lies in 95 of 100
// cases: from how much the recordings of a side differ (Student's t, one variance for both sides), but never narrower than the
// samples in the recordings allow. The intervals of sites are wider: in 95 of 100 comparisons all of those with at least 1 %
// of the total hold (Bonferroni).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/export/metrics.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct change {
  double before = 0;  // means over the recordings
  double after = 0;
  double margin = 0;  // half of the interval around amount(); 0: exact
  double amount() const noexcept { return after - before; }
  // That there is a change at all is not explained by chance.
  bool is_significant() const noexcept { return amount() > margin || amount() < -margin; }
  // 0.05 is 5 % more; infinite where there was nothing before; 0 where there is nothing at all.
  double share() const noexcept;
};

struct site_change {
  source_frame where;  // site_label
  std::string type;
  std::vector<change> values;  // in the order of metrics()
};

// Costs of one recording alone are taken to differ by this part from run to run: its standard deviation.
inline constexpr double usual_spread_of_time = 0.05;
// What the totals' intervals hold for, and together those of the sites.
inline constexpr double difference_confidence = 0.95;

struct difference {
  std::vector<change> totals;  // in the order of metrics()
  std::vector<site_change> sites;
  std::size_t recordings_before = 0;
  std::size_t recordings_after = 0;

  static difference between(const profile& before, const profile& after);
};

// Takes one recording after the other; keeps sums of them.
class difference_builder {
 public:
  enum class side : std::uint8_t { before, after };

  // Of each side at least one. `p` is left with the first one's prices.
  void add(side which, profile& p);
  const price_list& prices() const noexcept { return prices_; }
  difference take();

  struct one_value {
    double value = 0;
    double variance = 0;  // of the sampling
  };
  using column_values = std::vector<one_value>;  // in the order of metrics()

 private:
  // What a metric has been in all recordings. Where a recording does not have the site, it is 0.
  struct sums {
    double before = 0;
    double after = 0;
    double squares = 0;
    double variance_before = 0;  // of the sampling within the recordings
    double variance_after = 0;
  };
  struct site_sums {
    source_frame where;
    std::string type;
    std::vector<sums> values;
  };
  static void add(std::vector<sums>& to, side which, const column_values& values);
  change change_of(const sums& of, bool is_time, double run_bound, double sample_bound) const;
  std::size_t sites_that_count(std::size_t metric_index) const;

  std::map<std::string, site_sums> sites_;
  std::vector<sums> totals_;
  std::size_t recordings_[2] = {};
  price_list prices_;
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

// Where the change is beyond the limit: sentences, none where it is kept. Where no change at all would keep the limit, the
// change has to be significant, too. A site counts where the metric's value is at least 1 % of the total, before or after.
std::vector<std::string> exceeded(const difference& changes, const change_limit& limit);

}  // namespace tarn::profiler
