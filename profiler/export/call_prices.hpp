// SPDX-License-Identifier: MIT
// call_prices: what a call of malloc costs at each place, from several recordings together.
//
// How long a timed call takes depends on what else the machine does, and varies between recordings of one program several
// times as much as the number of calls. So recordings that are compared get the same price for a call at the same place, as
// long as their own prices do not show that the sides differ: then a change of the number of calls is found that the times
// would hide. A change of the price that is too small to be told from chance is taken to be none; how large that may be is
// price(), which is to be shown beside the result.
//
// Only calls for small blocks in mode sample. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <vector>

#include "profiler/export/path_identity.hpp"

namespace tarn::profiler {

// The prices of the sides differ if their difference lies outside of the interval of this confidence: two sides of one program get
// prices of their own so rarely.
inline constexpr double price_confidence = 0.99;

// Calls at one place, with the time that they took.
struct timed_place {
  path_identity place;
  double calls = 0;
  double ns = 0;
};

class call_prices {
 public:
  // The places of one recording. `side`: 0 or 1.
  void add(std::size_t side, const std::vector<timed_place>& places);

  // The mean price of a call, in ns, on both sides, for calls of the same places in the same numbers; and the standard error
  // of one recording's price as a part of it. Requires is_known().
  struct comparison {
    double before = 0;
    double after = 0;
    double error = 0;
  };
  // Whether both sides have timed calls of the same places, and recordings enough to know how their prices vary.
  bool is_known() const noexcept;
  comparison price() const;
  // Whether the sides' prices differ by no more than chance explains.
  bool are_equal() const;

  // The common price of a call at this place; 0: not known.
  double of(const path_identity& place) const;

 private:
  struct sums {
    std::array<double, 2> calls = {};
    std::array<double, 2> ns = {};
  };
  std::map<path_identity, sums> places_;
  std::array<std::vector<double>, 2> means_;  // each recording's mean price
};

}  // namespace tarn::profiler
