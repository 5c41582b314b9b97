// SPDX-License-Identifier: MIT
// thread_paths: the call path of an event as a node of the thread's ring, and the modules that it leads through.
#include "profiler/record/module_names.hpp"
#include "profiler/record/own_calls.hpp"
#include "profiler/record/recorder.hpp"
#include "profiler/record/recorder_state.hpp"
#include "profiler/record/thread_scripts.hpp"

namespace tarn::profiler::recorder {

namespace {

constexpr std::uint32_t verify_every = 256;  // one in this many call paths is verified; a power of two

// Numbers of dlclose calls that have begun, and that have ended: see library_generation().
constinit std::atomic<std::uint64_t> closes_begun{0};
constinit std::atomic<std::uint64_t> closes_ended{0};

class ring_modules final : public module_sink {
 public:
  explicit ring_modules(thread_state& thread) : thread_(thread) {}

  void add(std::string_view text, std::uintptr_t base, std::uintptr_t start, std::uintptr_t end) override {
    const std::uint64_t tail[3] = {base, start, end};
    put_text(thread_, text_kind::module, text, tail, 3);
  }
  std::uintptr_t number_of(const loaded_module& module) {
    return profiler::number_of(module, thread_.modules, process->reported, *this);
  }

 private:
  thread_state& thread_;
};

bool find_module_of(std::uintptr_t pc, loaded_module& module) {
  self.busy = calling;
  const bool known = find_module(pc, module);
  self.busy = recording;
  return known;
}

class module_rules final : public rule_source {
 public:
  explicit module_rules(thread_state& thread) : thread_(thread) {}

  frame_rule rule_for(std::uintptr_t pc) override {
    loaded_module module;
    if (!find_module_of(pc, module)) {
      frame_rule unknown;
      unknown.kind = rule_kind::frame_pointer;
      return unknown;
    }
    thread_scripts::look_at(module);
    ring_modules(thread_).number_of(module);
    return parse_frame_rule(pc, module.unwind_header);
  }

 private:
  thread_state& thread_;
};

class ring_nodes final : public node_sink {
 public:
  explicit ring_nodes(thread_state& thread) : thread_(thread) {}

  std::uintptr_t name_of(std::uintptr_t pc) override {
    if (!any_numbered()) return pc;
    for (const recent_modules::range& each : thread_.modules.ranges) {
      if (pc - 1 >= each.start && pc - 1 < each.end) return pc + each.number;
    }
    loaded_module module;
    return find_module_of(pc - 1, module) ? pc + ring_modules(thread_).number_of(module) : pc;
  }
  bool announce(std::uint32_t parent, std::uintptr_t address) override {
    if (!thread_.reserve(2)) return false;
    thread_.put(static_cast<std::uint64_t>(word_kind::node) | static_cast<std::uint64_t>(parent) << 32);
    thread_.put(address);
    thread_.publish();
    return true;
  }

 private:
  thread_state& thread_;
};

// A number that changes with each dlclose; 0 while one is in progress, as another library may be loaded at the
// closed one's address before dlclose returns.
std::uint64_t library_generation() {
  // relaxed: code of a library that another thread is closing is not on this thread's stack. A thread that has
  // loaded a library at a closed one's address has synchronised with that dlclose by the dynamic linker's lock.
  const std::uint64_t ended = closes_ended.load(std::memory_order_relaxed);
  return closes_begun.load(std::memory_order_relaxed) == ended ? ended + 1 : 0;
}

}  // namespace

std::uint32_t node_of(thread_state& thread, const call_origin& origin) {
  const std::uint64_t generation = library_generation();
  if (generation == 0 || generation != thread.library_generation) {
    thread.library_generation = generation;
    thread.path.forget();
    thread.modules.forget();
  }
  const stack_memory stack = thread.stack.memory_from(origin.stack_pointer, stack_question());
  module_rules source(thread);
  source.generation = generation;
  ring_nodes sink(thread);
  thread_scripts scripts(thread);
  const std::uint32_t node =
      thread.path.node_of(origin, stack, rules, source, sink, thread_scripts::are_any() ? &scripts : nullptr);
  if ((++thread.events & (verify_every - 1)) == 0) {
    process->file.page->unwind_checked.fetch_add(1, std::memory_order_relaxed);
    if (!thread.path.verify(origin, stack, rules, source)) {
      process->file.page->unwind_wrong.fetch_add(1, std::memory_order_relaxed);
    }
  }
  return node;
}

void library_closing() { closes_begun.fetch_add(1, std::memory_order_relaxed); }
void library_closed() { closes_ended.fetch_add(1, std::memory_order_relaxed); }

}  // namespace tarn::profiler::recorder
