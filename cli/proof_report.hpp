// SPDX-License-Identifier: MIT
// proof_report: the table, the verdict in plain words, and the JSON of a proof. Pure functions; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profiler/analyze/advice.hpp"
#include "proof_rounds.hpp"

namespace tarn::cli {

std::string render_proof(const proof_result& result, bool colour);
// Sentences, one per line. The first says which way gains most, or that none gains.
std::vector<std::string> render_proof_verdict(const profiler::proof& what);
// What the proof makes of the advice that the profile held.
std::string render_proven_advice(const std::vector<profiler::advice>& advised);
nlohmann::json as_json(const proof_result& result);

}  // namespace tarn::cli
