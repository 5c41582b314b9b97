// SPDX-License-Identifier: MIT
// proof_report: the table, the verdict in plain words, and the JSON of a proof. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/compare/proof_rounds.hpp"
#include "profiler/analyze/advice.hpp"

namespace tarn::cli {

// The table is at most `width` columns wide, but always has one column of figures; 0: any width.
std::string render_proof(const proof_result& result, bool colour, std::size_t width);
// Sentences, one per line. The first says which way gains most, or that none gains.
std::vector<std::string> render_proof_verdict(const profiler::proof& what);
// What the proof says about the advice of the profile.
std::string render_proven_advice(const std::vector<profiler::advice>& advised);
nlohmann::json as_json(const proof_result& result);

}  // namespace tarn::cli
