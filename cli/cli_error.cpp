// SPDX-License-Identifier: MIT
#include "cli_error.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace tarn::cli {

void print_error(const cli_error& error, bool json) {
  if (json) {
    const nlohmann::json object = {
        {"error", {{"problem", error.what()}, {"advice", error.advice()}, {"exit_code", error.code()}}}};
    fmt::print(stderr, "{}\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  fmt::print(stderr, "tarn: {}\n", error.what());
  if (!error.advice().empty()) {
    fmt::print(stderr, "      {}\n", error.advice());
  }
}

void print_note(const std::string& text) { fmt::print(stderr, "tarn: {}\n", text); }

}  // namespace tarn::cli
