// SPDX-License-Identifier: MIT
// lua_frames: the Lua functions that the calling thread executes, read from Lua's own structures during an allocation. It calls
// nothing of the interpreter, takes no lock, allocates nothing and changes nothing.
//
// No variable leads to the running Lua state, but its functions keep its address in their frames of the C stack: there it is
// looked for, and known afterwards. A state runs on this thread if its innermost protected call (errorJmp) lies in the
// thread's present stack; the innermost of several (coroutines) has the lowest one.
//
// Why that is safe: a running state's calls, and the functions that they run, are alive, and only this thread changes them. A
// state that was known may have been freed, and Lua's own stack may be gone while it asks for a larger one: those are read with
// each page checked (guarded_reader), and so is everything until enough looks have proved the layout.
//
// One for each thread, in zeroed memory.
#pragma once

#include <cstdint>

#include "profiler/record/script_frame.hpp"
#include "unwind/frame_rule.hpp"

namespace tarn::profiler {

class lua_frames {
 public:
  // As python_frames.
  static void look_at(const unwind::loaded_module& module);
  static bool is_known();
  static bool is_unreadable();

  std::uint32_t frames(const native_path& native, script_frame* out, std::uint32_t most);
  void describe(const script_frame& frame, script_place& out) const;

 private:
  friend class lua_look;
  static constexpr std::uint32_t most_states = 16;  // as coroutines may resume one another
  static constexpr std::uint32_t most_idle = 3;
  static constexpr std::uint32_t barren_sets = 64;  // a power of two
  struct known_state {
    std::uintptr_t state;   // 0: none
    std::uintptr_t global;  // what all states of one interpreter have in common
  };

  bool proven_;  // at the last look
  std::uint32_t next_;
  known_state states_[most_states];
  // Native paths on which no further state was found, by hash; the newest of a set first.
  std::uint64_t barren_[barren_sets][4];
};

}  // namespace tarn::profiler
