// SPDX-License-Identifier: MIT
// recording_settings: what the caller asks of a recording, and what its parts share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "profiler/analyze/debug_files.hpp"
#include "profiler/collect/fault_events.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/model/recorded_command.hpp"
#include "profiler/proc/ticks.hpp"

namespace tarn::profiler {

class output_files;

struct recording_settings {
  profile_mode mode = profile_mode::sample;
  std::uint64_t sample_bytes = std::uint64_t{512} << 10;
  std::uint32_t first_halvings = 5;  // of sample_bytes, at the start of each process (session.hpp)
  bool keep_events = true;           // in mode full
  double checkpoint_seconds = 5;     // shortest time between two checkpoints of a file
  std::string output;                // empty: tarn-PROGRAM-PID.prof here
  std::string directory = {};        // directory of files without a given name; empty: the current one
  // A process that runs already (tarn attach); 0: this process starts the program.
  std::uint32_t program = 0;
  symbol_settings symbols = {};
  price_list prices = {};
  std::optional<recorded_command> command = {};  // stored in the program's own file
  // What the caller knows: kernel, thp, privilege, refused ...
  nlohmann::json meta = nlohmann::json::object();

  bool is_attached() const { return meta.contains("attached"); }
};

// What the processes of a recording know of it. Owned by the recording.
struct recording_context {
  const recording_settings& settings;
  const tick_clock& clock;
  const fault_events& faults;
  output_files& files;
  std::uint32_t main_process = 0;  // 0: the program has not started
  int main_status = -1;            // as of waitpid, once it has ended
};

}  // namespace tarn::profiler
