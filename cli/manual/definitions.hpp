// SPDX-License-Identifier: MIT
// definitions: what the commands are, for other programs: as JSON (the tests compare every other form with it). Pure
// functions; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "cli/manual/verb.hpp"

namespace tarn::cli {

// By verb: "summary", "usage", "usage_exit", "exits", and "options", each with "names", "value" (empty: a flag),
// "words", "positional", "required" and "help".
nlohmann::json definitions_json(std::span<const verb> verbs);

}  // namespace tarn::cli
