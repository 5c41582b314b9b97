// SPDX-License-Identifier: MIT
// trouble: which of a profile's findings hurts most, so that a summary begins with it: that the program was killed, that its
// memory came near a limit or went on growing, how much memory it took, or how much time. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// By rank: the first one that applies is the trouble. `peak` and `time` are shares of what there is, of which the larger wins.
enum class trouble_kind : std::uint8_t { death, peak, growth, time };

// Between the means of the readings of two parts of the time.
struct memory_growth {
  bool is_live = true;  // of the live blocks' bytes; otherwise of what is resident
  bool is_sampled = false;
  std::uint64_t from_ns = 0;
  std::uint64_t to_ns = 0;
  double from_bytes = 0;
  double to_bytes = 0;
  double live_bytes = 0;   // what the live blocks grew by meanwhile
  double live_margin = 0;  // half the width of its interval

  double bytes() const noexcept { return to_bytes - from_bytes; }
};

struct trouble {
  trouble_kind kind = trouble_kind::time;
  int signal = 0;  // that ended the program, if nobody asked it to end
  std::string
      out_of_memory;  // whose memory had run out when the kernel killed a process then: "group", "machine"
  double peak_bytes = 0;                // resident
  bool is_peak_exact = false;           // otherwise at least so much
  double recorder_bytes = 0;            // of peak_bytes: tarn's recorder, at the reading with most resident
  double limit_bytes = 0;               // of the control group; 0: none
  int status = 0;                       // with which it ended by itself
  double address_bytes = 0;             // limit of the address space (ulimit -v); 0: none
  double peak_address_bytes = 0;        // of the address space; 0: not known
  double machine_bytes = 0;             // the machine's memory; 0: not known
  std::optional<memory_growth> growth;  // at the end of the run, whatever the kind

  // Whether memory has ended the program, or nearly did.
  bool is_near_limit() const noexcept { return limit_bytes > 0 && peak_bytes >= 0.9 * limit_bytes; }
  // Whether it has given up when its address space was near its limit, as a script does that handles the error.
  bool gave_up() const noexcept { return status != 0 && is_near_address_limit(); }
  bool is_near_address_limit() const noexcept {
    return address_bytes > 0 && peak_address_bytes >= 0.9 * address_bytes;
  }
  bool may_be_memory() const noexcept;
  // Whether the trouble is one of memory: neither time nor a signal that has nothing to do with it.
  bool is_memory() const noexcept {
    return kind != trouble_kind::time && (kind != trouble_kind::death || may_be_memory());
  }
  double available_bytes() const noexcept;  // the limit, or the machine's memory
};

trouble trouble_of(const profile& p);

// "killed by signal 9 (Killed); its resident memory reached …"; of a trouble with time, what memory it took.
std::string sentence_of(const trouble& what);
const char* name_of(trouble_kind kind);  // "death"

// The reading that tells who held the memory: the one at the live peak; of a program that memory has killed, the last one. Null:
// the profile has none.
const memory_row* reading_for(const profile& p, const trouble& what);

}  // namespace tarn::profiler
