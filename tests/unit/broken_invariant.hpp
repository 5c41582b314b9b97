// SPDX-License-Identifier: MIT
// EXPECT_BROKEN(statement, structure, equation, at): the statement, which checks a structure that the test has broken,
// ends the process with the line that names the structure, the equation as its validate() has it, and the address.
#pragma once

#include <string>

#include "../death/expect_abort.hpp"

namespace tarn::testing_support {

// The text as a regular expression.
inline std::string literally(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string("\\^$.[]|()*+?{}").find(c) != std::string::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace tarn::testing_support

#define EXPECT_BROKEN(statement, structure, equation, at) \
  EXPECT_TARN_ABORT(statement,                            \
                    tarn::testing_support::literally("broken invariant of " structure ": " equation), at)
