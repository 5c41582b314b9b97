// SPDX-License-Identifier: MIT
// The objects that the tests of misused pools make, and their pools. In the global namespace, so that their names contain no
// characters that are special in regular expressions.
#pragma once

#include <cstdint>

#include "tarn/pool.hpp"
#include "tarn/pooled.hpp"

struct order {
  std::uint64_t words[6] = {1, 2, 3, 4, 5, 6};
};
struct invoice {
  std::uint64_t words[6] = {6, 5, 4, 3, 2, 1};
};
struct vehicle : tarn::pooled<vehicle> {
  std::uint64_t wheels = 4;
};
struct truck : vehicle {
  std::uint64_t load[20] = {};
};

namespace tarn {

constexpr auto orders = pool_of<order>();
constexpr auto invoices = pool_of<invoice>();

}  // namespace tarn
