// SPDX-License-Identifier: MIT
// EXPECT_TARN_ABORT(statement, text, pointer): the statement ends the process with SIGABRT, and standard error is
// exactly the line "tarn: <text>: <pointer>". It runs in a forked copy of this process (GoogleTest's style "fast", its
// default), so the test knows the pointer. TARN_END_OF_OUTPUT is the end of a regular expression for all of it.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <string>

// qemu-user adds a line of its own when a program dies of a signal.
#define TARN_END_OF_OUTPUT "(qemu: uncaught target signal [^\n]*\n)?$"

namespace tarn::testing_support {

// Hides a pointer's origin from the compiler, which would warn of most of these errors.
template <class T>
T* hidden(T* p) {
  T* volatile v = p;
  return v;
}

inline std::string fatal_line(const std::string& text, const void* pointer) {
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx",
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(pointer)));
  return "^tarn: " + text + ": " + address + "\n" TARN_END_OF_OUTPUT;
}

}  // namespace tarn::testing_support

#define EXPECT_TARN_ABORT(statement, text, pointer) \
  EXPECT_EXIT(statement, testing::KilledBySignal(SIGABRT), tarn::testing_support::fatal_line(text, pointer))
