// SPDX-License-Identifier: MIT
// definitions: what the commands are, for other programs: as JSON (the tests compare every other form with it), and their
// exit codes as a page of the documentation. Pure functions; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "cli/manual/verb.hpp"

namespace tarn::cli {

// By verb: "summary", "usage", "usage_exit", "exits", and "options", each with "names", "value" (empty: a flag),
// "words", "positional", "required" and "help".
nlohmann::json definitions_json(std::span<const verb> verbs);

// docs/reference/exit-codes.md
std::string exit_codes_page(std::span<const verb> verbs);

}  // namespace tarn::cli
