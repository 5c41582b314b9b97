// SPDX-License-Identifier: MIT
#include "cli/commands/compared_files.hpp"

#include <fmt/core.h>

#include <cmath>

#include "cli/recording/process_choice.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::cli {

void compared_files::add_times(const std::string& path, side which) {
  try {
    builder_.add_times(which, profiler::load_profile(path, profiler::profile_detail::figures));
  } catch (const profiler::profile_error&) {
    // add() reports it
  }
}

void compared_files::add(const std::string& path, side which) {
  profiler::profile p = load_for_command(path, "", profiler::profile_detail::figures);
  const std::string program = profiler::text_in(p.meta, "program");
  if (!seen_) {
    program_ = program;
    mode_ = p.mode;
    fault_ns_ = p.prices.fault;
  }
  seen_ = true;
  if (program != program_) other_program_ = program;
  has_other_mode_ = has_other_mode_ || p.mode != mode_;
  for (std::size_t index = 0; index < lacks_.size(); ++index)
    lacks_[index] |= !is_known(p, profiler::metrics()[index]);
  const double fault_ns = p.prices.fault;
  if (fault_ns > 0 && fault_ns_ > 0 && std::abs(std::log(fault_ns / fault_ns_)) > std::log(1.25))
    other_fault_ns_ = fault_ns;
  (profiler::flag_in(p.meta, "black_box") ? has_box_ : has_recording_) = true;
  builder_.add(which, p);
}

bool compared_files::knows(const profiler::metric& what) const {
  return !lacks_[static_cast<std::size_t>(&what - profiler::metrics().data())];
}

profiler::difference compared_files::take() {
  note_what_differs();
  profiler::difference changes = builder_.take();
  if (changes.recordings_before + changes.recordings_after == 2 && knows(profiler::metrics().front())) {
    print_note(
        fmt::format("with one recording per side the variation between runs is unknown; {:.0f} % is assumed "
                    "for times. To record several: tarn profile -r 5",
                    100 * profiler::usual_spread_of_time));
  }
  return changes;
}

void compared_files::note_what_differs() const {
  if (!other_program_.empty())
    print_note(fmt::format("these are profiles of different programs: {} and {}", program_, other_program_));
  if (has_other_mode_)
    print_note(
        "the profiles were recorded in different modes; their figures are based on different "
        "samples");
  if (has_box_ && has_recording_)
    print_note(
        "a black box counts the bytes that malloc gave, the other profile those that were asked for, which are fewer");
  if (other_fault_ns_ > 0) {
    print_note(
        fmt::format("the price of a page fault was {:.0f} ns in one recording and {:.0f} ns in another "
                    "(another machine, or another load); {:.0f} ns is used for all",
                    fault_ns_, other_fault_ns_, fault_ns_));
  }
}

}  // namespace tarn::cli
