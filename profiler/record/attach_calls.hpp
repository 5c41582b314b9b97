// SPDX-License-Identifier: MIT
// attach_calls: the functions of libtarn_record that are called in a running program from outside, to begin and to end
// its recording there. Each is called by one of the program's threads, which is stopped at a place where it holds no lock
// of malloc or of the dynamic linker. One caller at a time.
#pragma once

#include <cstdint>

namespace tarn::profiler {

enum class attach_result : long {
  recording = 0,
  already = 1,  // it is being recorded
  no_memory = 2,
  no_session = 3,  // the header of the session cannot be opened
  no_file = 4,     // the process file cannot be made, or the collector did not get it
  no_slots = 5,    // the system did not let one slot be changed
  preloaded = 6,   // the recorder was there from the program's start
  left_over = 7,   // of a recording whose collector has gone: to be released before the next
};

// Results in the low 32 bits; how many slots were refused above them.
inline constexpr unsigned refused_shift = 32;

inline constexpr const char* attach_function =
    "tarn_record_attach";  // long (const char* place): an attach_result
inline constexpr const char* look_function = "tarn_record_look";  // long (): slots of libraries that are new
inline constexpr const char* detach_function =
    "tarn_record_detach";  // long (): slots that could not be put back
inline constexpr const char* release_function =
    "tarn_record_release";  // long (): 1 all is given back, 0 not yet
// const uint32_t* (): a word that changes with each call of dlopen
inline constexpr const char* loads_function = "tarn_record_loads";

// From detach to release.
inline constexpr double seconds_before_release = 0.02;

}  // namespace tarn::profiler
