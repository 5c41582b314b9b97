// SPDX-License-Identifier: MIT
#include "cli/compare/profile_proof.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "cli/compare/comparison_report.hpp"
#include "cli/compare/proof_report.hpp"
#include "cli/compare/proof_rounds.hpp"
#include "cli/compare/repeat.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

void require_provable(const profiler::recorded_command& command) {
  if (const std::string refusal = input_refusal(command); !refusal.empty()) {
    throw cli_error(exit_code::refused, "--prove: the runs cannot be repeated: " + refusal,
                    "Redirect standard input from a file or from /dev/null; or record without --prove, then "
                    "run tarn prove --stdin FILE");
  }
}

std::optional<recorded_profile> main_file(const profiler::recording& record) {
  const profiler::profile* main = record.main_profile();
  if (main == nullptr) return std::nullopt;
  const auto process = main->meta.value("pid", std::uint32_t{0});
  const auto file = std::find_if(record.files().rbegin(), record.files().rend(),
                                 [process](const auto& one) { return one.process == process; });
  if (file == record.files().rend()) return std::nullopt;
  return recorded_profile{file->path, *main};
}

void prove_recorded(const recorded_profile& recorded, bool quiet) {
  try {
    proof_wishes wishes;
    wishes.seed = std::random_device{}();
    wishes.progress = !quiet;
    wishes.repeat.trusted = true;  // this process has just written it
    const proof_result result = prove_profile(recorded.path, recorded.content, wishes);
    for (const std::string& note : result.notes) print_note(note);
    if (const std::string interruption = interruption_text(result); !interruption.empty()) {
      print_note(interruption);
      if (result.proven.rounds == 0) return;
    }
    fmt::print(stderr, "\n{}\n",
               render_proof(result, wants_colour(STDERR_FILENO), terminal_width(STDERR_FILENO)));
    for (const std::string& line : render_proof_verdict(result.proven)) fmt::print(stderr, "{}\n", line);
    fmt::print(stderr, "{}", render_failures(result.outcome));
  } catch (const std::exception& error) {
    print_note(fmt::format("nothing could be proven: {}", error.what()));
  }
}

}  // namespace tarn::cli
