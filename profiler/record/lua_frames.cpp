// SPDX-License-Identifier: MIT
#include "profiler/record/lua_frames.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>

#include "profiler/record/guarded_reader.hpp"
#include "profiler/record/lua_layout.hpp"

namespace tarn::profiler {

namespace {

constexpr std::uint32_t lua_proving_looks = 64;
constexpr std::uint32_t most_misses =
    1 << 16;                                // Lua's functions on the path and no state, before there was any
constexpr std::uint32_t most_calls = 4096;  // of a state, that are looked at
constexpr std::uint32_t most_depth = 1 << 18;  // of a state, when it is found
constexpr std::uintptr_t searched_bytes = 4096;
constexpr std::uintptr_t outermost_reach = 16384;  // a protected call may lie in the outermost frame
constexpr std::uintptr_t lowest_object = 65536;
constexpr std::uintptr_t highest_object = std::uintptr_t{1} << 47;

enum class lua_standing : std::uint32_t { not_known, under_way, known, not_what_it_seems };

// Of the process, inherited by forked children.
constinit std::uintptr_t code_start = 0;
constinit std::uintptr_t code_end = 0;
constinit std::atomic<lua_standing> lua_now{lua_standing::not_known};  // orders the two
constinit std::atomic<std::uint32_t> lua_looks{0};
constinit std::atomic<std::uint32_t> lua_misses{0};

bool is_in_lua(std::uintptr_t pc) { return pc - 1 >= code_start && pc - 1 < code_end; }

}  // namespace

// One look at the thread's stacks.
class lua_look {
 public:
  lua_look(lua_frames& of, const native_path& native, bool proven)
      : of_(of), native_(native), checked_(false), sure_(proven) {
    low_ = native.frames[native.depth - 1]->stack_pointer;
    high_ = native.frames[0]->stack_pointer + outermost_reach;
    if (high_ < low_) high_ = low_;
  }

  std::uint32_t take(script_frame* out, std::uint32_t most) {
    std::uint32_t host = native_.depth;
    while (host > 0 && !is_in_lua(native_.frames[host - 1]->pc)) --host;
    if (host == 0) return 0;
    is_in_lua_ = true;
    look_at_known();
    const std::uintptr_t innermost = native_.frames[host - 1]->stack_pointer;
    if (running_count_ == 0) {
      search(innermost, high_);
    } else {
      search_between(is_in_c(running_[0].state) ? innermost : running_[0].error_jump);
    }
    for (std::uint32_t index = 0; index < running_count_; ++index) collect(running_[index], out, most);
    return count_;
  }
  // Lua's functions are on the path, and no state is found: the structures are others, or no function of Lua's runs.
  [[nodiscard]] bool is_miss() const { return is_in_lua_ && running_count_ == 0; }

 private:
  struct running_state {
    std::uintptr_t state;
    std::uintptr_t error_jump;
  };

  std::uintptr_t global_of(std::uintptr_t address) {
    std::uintptr_t global = 0;
    return checked_.read(address + lua::state_global, &global, sizeof global) ? global : 0;
  }

  // The innermost protected call of a state that runs on this stack; 0: it is none.
  std::uintptr_t error_jump_of(std::uintptr_t address) {
    guarded_reader& from = checked_;
    std::uint8_t kind = 0;
    std::uintptr_t jump = 0;
    if (!from.read(address + lua::object_kind, &kind, 1) || kind != lua::kind_thread) return 0;
    if (!from.read(address + lua::state_error_jump, &jump, sizeof jump)) return 0;
    return jump >= low_ && jump < high_ && jump % 8 == 0 ? jump : 0;
  }

  // Of those that do not run, some are kept, as they may run again.
  void look_at_known() {
    std::uint32_t idle = 0;
    for (auto& known : of_.states_) {
      if (known.state == 0) continue;
      const std::uintptr_t jump = global_of(known.state) == known.global ? error_jump_of(known.state) : 0;
      if (jump != 0) {
        add_running(known.state, jump);
      } else if (++idle > lua_frames::most_idle) {
        known.state = 0;
      }
    }
  }

  // Keeps those that run here by their protected calls, innermost first.
  void add_running(std::uintptr_t address, std::uintptr_t jump) {
    std::uint32_t at = running_count_++;
    for (; at > 0 && running_[at - 1].error_jump > jump; --at) running_[at] = running_[at - 1];
    running_[at] = {address, jump};
  }

  // In the place of one that does not run: a state that runs is forgotten by no other.
  void remember(std::uintptr_t address, std::uintptr_t jump) {
    auto* place = &of_.states_[of_.next_++ % lua_frames::most_states];
    while (is_taken(place->state)) place = &of_.states_[of_.next_++ % lua_frames::most_states];
    *place = {address, global_of(address)};
    add_running(address, jump);
  }

  bool is_in_c(std::uintptr_t address) {
    guarded_reader from(sure_);
    const auto status =
        from.take<std::uint16_t>(from.take<std::uintptr_t>(address + lua::state_call) + lua::call_status);
    return from.failed() || (status & lua::status_c_function) != 0;
  }

  // A C function of a known state may have resumed another one, up to the next known one. Whether it has is the same each time
  // that the same native code is on the path: where nothing was found, it is not searched again.
  void search_between(std::uintptr_t from) {
    while (from < high_) {
      std::uintptr_t end = high_;
      for (std::uint32_t index = running_count_; index > 0 && running_[index - 1].error_jump > from; --index)
        end = running_[index - 1].error_jump;
      std::uint64_t hash = 1;
      for (std::uint32_t index = native_.depth; index > 0; --index) {
        const native_frame& frame = *native_.frames[index - 1];
        if (frame.stack_pointer >= from && frame.stack_pointer < end)
          hash = (hash ^ frame.pc) * 0x9e3779b97f4a7c15U;
      }
      auto& barren = of_.barren_[hash >> 32 & (lua_frames::barren_sets - 1)];
      if (std::find(std::begin(barren), std::end(barren), hash) == std::end(barren) && !search(from, end)) {
        std::copy_backward(std::begin(barren), std::end(barren) - 1, std::end(barren));
        barren[0] = hash;
      }
      from = end;
    }
  }

  // Looks for addresses of states in the frames of Lua's functions, from `from` outwards to `limit`. The frames of a state lie
  // next to those of the state that resumed it. False: there is none.
  bool search(std::uintptr_t from, std::uintptr_t limit) {
    bool found = false;
    std::uintptr_t end = from + searched_bytes;
    for (std::uintptr_t at = from; at + 8 <= end && at + 8 <= limit; at += 8) {
      if (running_count_ == lua_frames::most_states) return true;
      std::uintptr_t word = 0;
      if (!checked_.read(at, &word, sizeof word)) return true;
      const bool is_possible = word % 8 == 0 && word >= lowest_object && word < highest_object &&
                               (word < low_ || word >= high_) && (word < code_start || word >= code_end);
      if (!is_possible || is_taken(word)) continue;
      const std::uintptr_t jump = error_jump_of(word);
      if (jump == 0 || !leads_to_base(word)) continue;
      remember(word, jump);
      end = at + searched_bytes;
      found = true;
    }
    return found;
  }

  [[nodiscard]] bool is_taken(std::uintptr_t word) const {
    for (std::uint32_t index = 0; index < running_count_; ++index)
      if (running_[index].state == word) return true;
    return false;
  }

  // Whether the state's calls end with the one that is part of it.
  bool leads_to_base(std::uintptr_t address) {
    std::uintptr_t call = 0;
    if (!checked_.read(address + lua::state_call, &call, sizeof call)) return false;
    for (std::uint32_t left = most_depth; left > 0 && call != address + lua::state_base_call; --left) {
      if (!checked_.read(call + lua::call_previous, &call, sizeof call) || call == 0) return false;
    }
    return call == address + lua::state_base_call;
  }

  void collect(const running_state& running, script_frame* out, std::uint32_t most) {
    guarded_reader from(sure_);
    bool is_called_by_lua = false;  // the frame that was taken last, by the next one
    auto call = from.take<std::uintptr_t>(running.state + lua::state_call);
    for (std::uint32_t left = most_calls; left > 0 && count_ < most && call != 0; --left) {
      if (from.failed() || call == running.state + lua::state_base_call) return;
      const auto status = from.take<std::uint16_t>(call + lua::call_status);
      const bool is_taken =
          (status & lua::status_c_function) == 0 && take_call(from, running, call, out[count_]);
      if (is_taken && is_called_by_lua) {
        out[count_ - 1].caller = out[count_].code;
        out[count_ - 1].caller_instruction = out[count_].instruction;
      }
      if (is_taken) ++count_;
      is_called_by_lua = is_taken && (status & lua::status_tail_call) == 0;
      call = from.take<std::uintptr_t>(call + lua::call_previous);
    }
  }

  // From 5.4.6 on, a function's place is an offset while Lua's stack moves, and the stack may be gone: its top tells.
  std::uintptr_t closure_of(guarded_reader& from, const running_state& running, std::uintptr_t call) {
    auto place = from.take<std::uintptr_t>(call + lua::call_function);
    const auto stack = from.take<std::uintptr_t>(running.state + lua::state_stack);
    const bool moves = from.take<std::uintptr_t>(running.state + lua::state_top) < stack;
    if (moves) place += stack;
    guarded_reader& values = moves ? checked_ : from;
    std::uint8_t tag = 0;
    std::uint8_t kind = 0;
    std::uintptr_t closure = 0;
    if (!values.read(place + lua::value_tag, &tag, 1) || tag != (lua::kind_closure | lua::is_object))
      return 0;
    if (!values.read(place, &closure, sizeof closure)) return 0;
    return values.read(closure + lua::object_kind, &kind, 1) && kind == lua::kind_closure ? closure : 0;
  }

  bool take_call(guarded_reader& from, const running_state& running, std::uintptr_t call, script_frame& out) {
    const std::uintptr_t closure = closure_of(from, running, call);
    if (closure == 0) return false;
    const auto prototype = from.take<std::uintptr_t>(closure + lua::closure_prototype);
    if (from.take<std::uint8_t>(prototype + lua::object_kind) != lua::kind_prototype) return false;
    const auto next = from.take<std::uintptr_t>(call + lua::call_next_instruction);
    const auto code = from.take<std::uintptr_t>(prototype + lua::prototype_code);
    const auto count = from.take<std::uint32_t>(prototype + lua::prototype_code_count);
    const auto source = from.take<std::uintptr_t>(prototype + lua::prototype_source);
    const auto line = from.take<std::uint32_t>(prototype + lua::prototype_first_line);
    if (from.failed() || next < code || next > code + 4 * std::uintptr_t{count}) return false;
    out = {prototype, next, source * 31 + line, running.error_jump, 0, 0};
    return true;
  }

  lua_frames& of_;
  const native_path& native_;
  guarded_reader checked_;
  bool sure_;
  std::uintptr_t low_ = 0;  // of the thread's present stack, as far as the path leads
  std::uintptr_t high_ = 0;
  running_state running_[lua_frames::most_states] = {};
  std::uint32_t running_count_ = 0;
  bool is_in_lua_ = false;
  std::uint32_t count_ = 0;
};

void lua_frames::look_at(const unwind::loaded_module& module) {
  // relaxed: the exchange below orders what is read
  lua_standing before = lua_standing::not_known;
  if (lua_now.load(std::memory_order_relaxed) != lua_standing::not_known) return;
  const lua::interpreter found = lua::interpreter_in(module);
  if (found == lua::interpreter::none) return;
  // acquire, as for a lock that is taken once and never released
  if (!lua_now.compare_exchange_strong(before, lua_standing::under_way, std::memory_order_acquire)) return;
  code_start = module.start;
  code_end = module.end;
  lua_now.store(found == lua::interpreter::known ? lua_standing::known : lua_standing::not_what_it_seems,
                std::memory_order_release);  // partner of is_known's acquire: the code's place is there
}

// acquire: partner of the release in look_at()
bool lua_frames::is_known() { return lua_now.load(std::memory_order_acquire) == lua_standing::known; }
// relaxed: it only adds a sentence to the profile
bool lua_frames::is_unreadable() {
  return lua_now.load(std::memory_order_relaxed) == lua_standing::not_what_it_seems;
}

std::uint32_t lua_frames::frames(const native_path& native, script_frame* out, std::uint32_t most) {
  // relaxed: the numbers of looks need not be exact
  const std::uint32_t proofs = lua_looks.load(std::memory_order_relaxed);
  proven_ = proofs >= lua_proving_looks;
  lua_look look(*this, native, proven_);
  const std::uint32_t count = look.take(out, most);
  if (proven_) return count;
  if (count != 0) {
    lua_looks.fetch_add(1, std::memory_order_relaxed);
  } else if (proofs == 0 && look.is_miss() &&
             lua_misses.fetch_add(1, std::memory_order_relaxed) >= most_misses) {
    // Built with other structures.
    lua_now.store(lua_standing::not_what_it_seems, std::memory_order_relaxed);
  }
  return count;
}

void lua_frames::describe(const script_frame& frame, script_place& out) const {
  guarded_reader from(proven_);
  lua::describe(from, frame, out);
}

}  // namespace tarn::profiler
