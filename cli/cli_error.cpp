// SPDX-License-Identifier: MIT
#include "cli_error.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "profiler/format/printable.hpp"

namespace tarn::cli {

void print_error(const cli_error& error, bool json) {
  if (json) {
    const nlohmann::json object = {{"error",
                                    {{"problem", profiler::printable(error.what())},
                                     {"advice", profiler::printable(error.advice())},
                                     {"exit_code", error.code()}}}};
    fmt::print(stderr, "{}\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  fmt::print(stderr, "tarn: {}\n", profiler::printable(error.what()));
  if (!error.advice().empty()) {
    fmt::print(stderr, "      {}\n", profiler::printable(error.advice()));
  }
}

void print_note(const std::string& text) { fmt::print(stderr, "tarn: {}\n", profiler::printable(text)); }

}  // namespace tarn::cli
