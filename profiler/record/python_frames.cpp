// SPDX-License-Identifier: MIT
#include "profiler/record/python_frames.hpp"

#include <pthread.h>

#include <atomic>

#include "profiler/record/exported_symbol.hpp"
#include "profiler/record/python_text.hpp"

namespace tarn::profiler {

namespace {

constexpr std::uint8_t generator_owns = 1;
// An entry frame of the interpreter, which lies in its C frame and has no function.
constexpr std::uint8_t interpreter_owns = 3;
constexpr std::uint32_t proving_looks = 64;
constexpr std::uint32_t most_parts = 4096;

enum class standing : std::uint32_t { not_known, under_way, known, not_what_it_seems };

// Of the process, inherited by forked children.
constinit python_layout layout;
constinit std::atomic<standing> state{standing::not_known};  // orders `layout`
constinit std::atomic<std::uint32_t> looks{0};

std::uintptr_t first_instruction(const python_layout& of, guarded_reader& from, std::uintptr_t code) {
  // co_firsttraceable, in code units of 2 bytes, lies 16 bytes before the code: instructions before it only set up
  // the frame.
  return code + of.code_bytes + 2 * from.take<std::uint32_t>(code + of.code_bytes - 16);
}

// Collects frames, innermost first.
class frame_collector {
 public:
  frame_collector(guarded_reader& from, script_frame* out, std::uint32_t most)
      : from_(from), out_(out), most_(most) {}

  // Takes the frames from `frame` outwards, excluding `end`. `anchor`: 0 if entry frames among them tell it.
  void take(std::uintptr_t frame, std::uintptr_t end, std::uintptr_t anchor) {
    std::uint32_t waiting = count_;  // frames from here on have no anchor yet
    while (frame != 0 && frame != end && count_ < most_ && !from_.failed()) {
      const auto owner = from_.take<std::uint8_t>(frame + layout.frame_owner);
      if (owner != interpreter_owns) {
        take_frame(frame, owner, anchor);
      } else if (anchor == 0) {
        for (; waiting < count_; ++waiting) out_[waiting].anchor = frame;
      }
      frame = from_.take<std::uintptr_t>(frame + layout.frame_previous);
    }
  }
  // The number of frames; 0: a structure was not as expected.
  [[nodiscard]] std::uint32_t count() const { return from_.failed() || wrong_ ? 0 : count_; }
  [[nodiscard]] bool wrong() const { return wrong_; }

 private:
  void take_frame(std::uintptr_t frame, std::uint8_t owner, std::uintptr_t anchor) {
    const auto code = from_.take<std::uintptr_t>(frame + layout.frame_code);
    const auto instruction = from_.take<std::uintptr_t>(frame + layout.frame_instruction);
    if (from_.take<std::uintptr_t>(code + layout.object_type) != layout.code_type) {
      wrong_ = true;
      return;
    }
    // Skip a frame that is still being set up.
    if (owner != generator_owns && instruction < first_instruction(layout, from_, code)) return;
    const auto name = from_.take<std::uintptr_t>(code + layout.code_name);
    const auto lines = from_.take<std::uintptr_t>(code + layout.code_lines);
    const auto file = from_.take<std::uintptr_t>(code + layout.code_file);
    const auto line = from_.take<std::uint32_t>(code + layout.code_first_line);
    out_[count_++] = {code, instruction, name * 31 + lines * 7 + file + line, anchor, 0, 0};
  }

  guarded_reader& from_;
  script_frame* out_;
  std::uint32_t most_;
  std::uint32_t count_ = 0;
  bool wrong_ = false;
};

// The calling thread's state in the interpreter; 0: it has none. `attached`: the thread may run Python now.
std::uintptr_t thread_state_of(bool& attached) {
  const std::uintptr_t now = layout.attached_state();
  attached = now != 0;
  if (layout.version >= 0x030c && now != 0) return now;
  const std::uintptr_t own = layout.own_state();
  if (now == own) return now;
  // 3.11 returns the state that holds the GIL, which may belong to another thread, or be this thread's state in
  // another interpreter.
  guarded_reader from(false);
  const auto self = static_cast<std::uintptr_t>(pthread_self());
  attached = now != 0 && from.take<std::uintptr_t>(now + layout.thread_id) == self && !from.failed();
  return attached ? now : own;
}

}  // namespace

void python_frames::look_at(const unwind::loaded_module& module) {
  // relaxed: the exchange below orders what is read
  standing before = standing::not_known;
  if (state.load(std::memory_order_relaxed) != standing::not_known) return;
  python_layout found;
  if (!find_python_layout(module, found)) {
    if (module.map != nullptr && exported_symbol(*module.map, "Py_GetVersion") != 0)
      state.compare_exchange_strong(before, standing::not_what_it_seems, std::memory_order_relaxed);
    return;
  }
  // acquire, as for a lock that is taken once and never released. Of several threads one fills the layout.
  if (!state.compare_exchange_strong(before, standing::under_way, std::memory_order_acquire)) return;
  layout = found;
  state.store(standing::known,
              std::memory_order_release);  // partner of is_known's acquire: the layout is there
}

// acquire: partner of the release in look_at()
bool python_frames::is_known() { return state.load(std::memory_order_acquire) == standing::known; }

// relaxed: it only adds a sentence to the profile
bool python_frames::is_unreadable() {
  return state.load(std::memory_order_relaxed) == standing::not_what_it_seems;
}

std::uint32_t python_frames::frames(script_frame* out, std::uint32_t most) {
  bool attached = false;
  const std::uintptr_t thread = thread_state_of(attached);
  if (thread == 0) return 0;
  // relaxed: the number of looks need not be exact
  const bool proven = looks.load(std::memory_order_relaxed) >= proving_looks;
  attached_ = attached && proven;
  guarded_reader from(attached_);
  frame_collector found(from, out, most);
  auto part = from.take<std::uintptr_t>(thread + layout.thread_frame);
  if (!layout.has_parts()) {
    found.take(part, 0, 0);
  } else {
    for (std::uint32_t left = most_parts; left > 0 && part != 0 && !from.failed(); --left) {
      const auto outer = from.take<std::uintptr_t>(part + layout.part_previous);
      const auto end = outer != 0 ? from.take<std::uintptr_t>(outer + layout.part_frame) : 0;
      found.take(from.take<std::uintptr_t>(part + layout.part_frame), end, part);
      if (part == thread + layout.thread_root) break;
      part = outer;
    }
  }
  // While attached, all memory must be there; if it is not, this interpreter has another layout, and is never read
  // again.
  if (attached && (found.wrong() || from.failed())) {
    state.store(standing::not_what_it_seems, std::memory_order_relaxed);
    return 0;
  }
  if (!proven && attached && found.count() != 0) looks.fetch_add(1, std::memory_order_relaxed);
  return found.count();
}

void python_frames::describe(const script_frame& frame, script_place& out) const {
  guarded_reader from(attached_);
  out.function_bytes = python_text(layout, from, from.take<std::uintptr_t>(frame.code + layout.code_name),
                                   out.text, script_place::most_function);
  out.file_bytes = python_text(layout, from, from.take<std::uintptr_t>(frame.code + layout.code_file),
                               out.text + out.function_bytes, script_place::most_file);
  out.line = python_line(layout, from, frame.code, frame.instruction);
}

}  // namespace tarn::profiler
