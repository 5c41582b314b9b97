// SPDX-License-Identifier: MIT
// answer_budget: cuts an answer so that it takes little of an agent's context, and says in the answer what was left out. Pure
// functions; any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace tarn::cli {

// 4,000 tokens at three bytes a token, which JSON with names of functions takes; prose takes four.
inline constexpr std::size_t most_answer_bytes = 12000;

// The text of `answer`, an object, within most_answer_bytes. Numbers get five digits. What is too much is taken from the ends of
// all long arrays alike, then from long texts; a member "left_out" then names what was cut, and says `how` to get it. Requires:
// `how` is short; the answer is nested at most as deep as a JSON that tarn writes.
std::string fitting_text(nlohmann::json answer, const std::string& how);

}  // namespace tarn::cli
