// SPDX-License-Identifier: MIT
// thread_scripts: the interpreted functions of a thread, for its call path, and their lines for the collector. For one look
// of the calling thread.
#pragma once

#include "profiler/record/recorder_state.hpp"

namespace tarn::profiler::recorder {

class thread_scripts final : public script_source {
 public:
  explicit thread_scripts(thread_state& thread) : thread_(thread) {}

  // Looks for an interpreter in a module that a call path leads through.
  static void look_at(const loaded_module& module) {
    python_frames::look_at(module);
    lua_frames::look_at(module);
    const std::uint32_t unread =
        (python_frames::is_unreadable() ? unread_python : 0) | (lua_frames::is_unreadable() ? unread_lua : 0);
    // relaxed: it only adds sentences to the profile
    if (unread != 0) process->file.page->unread_scripts.fetch_or(unread, std::memory_order_relaxed);
  }

  // Whether there may be any.
  static bool are_any() { return python_frames::is_known() || lua_frames::is_known(); }

  std::uint32_t frames(const native_path& native, script_frame* out, std::uint32_t most) override {
    const std::uint32_t count = python_frames::is_known() ? thread_.python.frames(out, most) : 0;
    is_lua_ = count == 0 && lua_frames::is_known();
    return is_lua_ ? thread_.lua.frames(native, out, most) : count;
  }
  std::uint64_t address_of(const script_frame& frame) override {
    return thread_.lines.address_of(
        frame, [this](const script_frame& one, script_place& place) { describe(one, place); });
  }
  void send(const script_frame& frame, std::uint64_t address) override {
    if (!thread_.lines.is_new(address)) return;
    script_place place;
    describe(frame, place);
    const std::uint64_t tail[2] = {address, place.line | std::uint64_t{place.function_bytes} << 32};
    put_text(thread_, text_kind::script_line, {place.text, place.function_bytes + place.file_bytes}, tail, 2);
  }

 private:
  void describe(const script_frame& frame, script_place& place) const {
    if (is_lua_) return thread_.lua.describe(frame, place);
    thread_.python.describe(frame, place);
  }

  thread_state& thread_;
  bool is_lua_ = false;  // at the last look: where both are, Python runs Lua
};

}  // namespace tarn::profiler::recorder
