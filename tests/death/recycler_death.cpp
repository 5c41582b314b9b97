// SPDX-License-Identifier: MIT
// Misuse of checked recyclers: each kind ends the process at once, with a line that names error, type and address.
#include <chrono>
#include <cstdint>

#include "expect_abort.hpp"
#include "tarn/recycler.hpp"

static_assert(TARN_CHECKED_POOLS == 1);

// In the global namespace, so that its name contains no characters that are special in regular expressions.
struct parser {
  std::uint64_t words[6] = {1, 2, 3, 4, 5, 6};
};

namespace tarn {
namespace {

using testing_support::hidden;

TEST(recycler_death, double_give_back) {
  recycler<parser> parsers({.cycle = std::chrono::milliseconds(0)});
  parser* const p = parsers.take();
  parsers.give_back(p);
  EXPECT_TARN_ABORT(parsers.give_back(hidden(p)), "double give-back of parser", p);
}

TEST(recycler_death, give_back_of_what_is_on_the_stack) {
  recycler<parser> parsers({.cycle = std::chrono::milliseconds(0)});
  parser own;
  EXPECT_EXIT(parsers.give_back(hidden(&own)), testing::KilledBySignal(SIGABRT),
              "give-back in the pool of .*parser.*, of a pointer that is in no pool");
}

TEST(recycler_death, give_back_to_another_recycler) {
  recycler<parser> parsers({.cycle = std::chrono::milliseconds(0)});
  recycler<parser> others({.cycle = std::chrono::milliseconds(0)});
  parser* const p = parsers.take();
  EXPECT_TARN_ABORT(others.give_back(hidden(p)),
                    "give-back of an object of another recycler to the one of parser", p);
  parsers.give_back(p);
}

TEST(recycler_death, write_after_give_back_is_seen_when_the_object_is_handed_out_again_or_ends) {
#if TARN_DETAIL_ASAN
  GTEST_SKIP() << "AddressSanitizer detects the write at once";
#endif
  recycler<parser> parsers({.cycle = std::chrono::milliseconds(0)});
  parser* const p = parsers.take();
  parsers.give_back(p);
  for (const bool ends : {false, true}) {
    EXPECT_TARN_ABORT(
        {
          hidden(p)->words[2] = 7;
          if (ends) parsers.trim();
          static_cast<void>(parsers.get());
        },
        "write to an object after its give-back, of parser", p);
  }
}

}  // namespace
}  // namespace tarn
