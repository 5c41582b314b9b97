// SPDX-License-Identifier: MIT
// process_answers: the answers of a running process, read. Whoever asks has them from here only: a process may send
// anything, and what is returned has known forms, printable texts and bounded sizes. All throw cli_error (refused).
// Thread safety: any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "profiler/format/openmetrics.hpp"

namespace tarn::cli {

struct process_option {
  std::string name;
  std::string value;
  std::string source;
  bool is_settable = false;
  std::string accepts;
};

profiler::metric_list metrics_of(pid_t process);
// Of several, in a few seconds for all; none of one that has not answered by then.
std::vector<std::optional<profiler::metric_list>> metrics_of(const std::vector<pid_t>& processes);
// The heap's figures: an object.
nlohmann::json heap_figures_of(pid_t process);
std::vector<process_option> options_of(pid_t process);
// `change`: OPTION=VALUE. Returns what it is now.
std::string set_option(pid_t process, const std::string& change);
// Returns how many bytes it has given back.
std::uint64_t trim_process(pid_t process, std::uint64_t keep);
// Its samples as it writes them, to be read by profiler::pprof_names. `view`: heap or allocs.
std::string profile_of(pid_t process, const std::string& view);
void require_answer(pid_t process);
bool is_any_answering(const std::vector<pid_t>& processes);

}  // namespace tarn::cli
