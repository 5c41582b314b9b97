// SPDX-License-Identifier: MIT
// attach_calls: the functions of libtarn_record that `tarn attach` calls in a running program, to begin and to end
// its recording. Each is executed by one of the program's threads, which was stopped at a point where it holds no
// lock of malloc or of the dynamic linker. One caller at a time. `lock`: the dynamic linker's lock, which the function
// takes for its whole duration, or does nothing if another thread has it: that thread may be waiting for this one (a
// constructor). Null: it is not known.
#pragma once

namespace tarn::profiler {

enum class attach_result : long {
  recording = 0,
  already = 1,  // the process is being recorded already
  no_memory = 2,
  no_session = 3,  // the header of the session cannot be opened
  no_file = 4,     // the process file cannot be made, or the collector did not get it
  no_slots = 5,    // not a single import slot could be changed
  preloaded = 6,   // the recorder was there from the program's start
  left_over = 7,   // a recording is left whose collector has gone: release it, then attach again
  busy = 8,        // another thread has the dynamic linker's lock: nothing was done
};

// A result is an attach_result in the low 32 bits, and the number of refused slots above them.
inline constexpr unsigned refused_shift = 32;

// Long (const char* place, pthread_mutex_t* lock): an attach_result.
inline constexpr const char* attach_function = "tarn_record_attach";
// Long (pthread_mutex_t* lock): slots of libraries that are new; -1: as `busy`.
inline constexpr const char* look_function = "tarn_record_look";
// Long (): slots that could not be put back.
inline constexpr const char* detach_function = "tarn_record_detach";
// Long (): 1 all is given back, 0 not yet.
inline constexpr const char* release_function = "tarn_record_release";
// const uint32_t* (): a word that changes with each call of dlopen
inline constexpr const char* loads_function = "tarn_record_loads";

// Shortest time between the calls of detach and release: see thread_state::enter.
inline constexpr double seconds_before_release = 0.02;

}  // namespace tarn::profiler
