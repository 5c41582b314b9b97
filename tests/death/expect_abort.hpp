// SPDX-License-Identifier: MIT
// EXPECT_TARN_ABORT(statement, text, pointer): the statement ends the process with SIGABRT after the line
// "tarn: <text>: <pointer>" on standard error, and nothing else.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <string>

namespace tarn::testing_support {

inline std::string fatal_line(const std::string& text, const void* pointer) {
  char line[256];
  std::snprintf(line, sizeof line, "^tarn: %s: 0x%llx\n$", text.c_str(),
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(pointer)));
  return line;
}

}  // namespace tarn::testing_support

#define EXPECT_TARN_ABORT(statement, text, pointer) \
  EXPECT_EXIT(statement, testing::KilledBySignal(SIGABRT), tarn::testing_support::fatal_line(text, pointer))
