// SPDX-License-Identifier: MIT
// refusal_of<Error>(work): the text of the Error that `work` throws, with its exit code before it and its advice behind
// it if it has them ("125 problem | advice"); "no error" if it throws none.
#pragma once

#include <string>

namespace tarn::testing_support {

template <typename Error, typename Work>
std::string refusal_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    std::string text = error.what();
    if constexpr (requires { error.code(); }) text = std::to_string(error.code()) + " " + text;
    if constexpr (requires { error.advice(); }) text += " | " + error.advice();
    return text;
  }
  return "no error";
}

}  // namespace tarn::testing_support
