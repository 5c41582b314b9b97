// SPDX-License-Identifier: MIT
// call_path: the current call path of a thread, as a node of a tree. It keeps the previous path and unwinds only
// the frames that changed. Every return address that it reuses is compared with the stack again, so a path is as
// correct as the unwind information.
//
// Where the thread executes interpreted functions, their frames replace the interpreter's native frame that runs
// them.
//
// Owned by one thread. Zeroed memory is an empty tracker: fork wipes it for the child, which begins anew.
// Invariant: frames_[0..depth_) lead from the outermost frame inwards, at falling stack addresses; frames_[i].node
// is the node of the path up to frame i. scripts_[0..script_depth_) likewise; their hosts never decrease, and are below
// depth_ (validate()).
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/frame_rule.hpp"
#include "os/frame_step.hpp"
#include "os/invariant.hpp"
#include "os/rule_table.hpp"
#include "profiler/record/script_frame.hpp"

namespace tarn::profiler {

using unwind::find_module;
using unwind::frame_rule;
using unwind::loaded_module;
using unwind::parse_frame_rule;
using unwind::rule_kind;
using unwind::rule_table;
using unwind::stack_bounds;
using unwind::stack_memory;
// Where a call of a hook came from.
using call_origin = unwind::frame_origin;

// Zeroed memory directly from the system; null: there is none.
void* map_pages(std::size_t bytes);
void unmap_pages(void* memory, std::size_t bytes);
// Zeroes private memory and gives its pages back.
void wipe_pages(void* memory, std::size_t bytes);

// (parent, address) -> id, counted from 1.
class node_table {
 public:
  std::uint32_t find(std::uint32_t parent, std::uintptr_t address) const noexcept;  // 0: none
  // Requires that the pair is not in the table. 0: out of memory, or too many nodes.
  std::uint32_t insert(std::uint32_t parent, std::uintptr_t address) noexcept;

  // Releases the memory; the table is empty then.
  void release() noexcept;

 private:
  struct entry {
    std::uint64_t address;
    std::uint32_t parent;
    std::uint32_t id;  // 0: empty
  };
  static constexpr std::uint32_t first_size = 2048;
  static constexpr std::uint32_t most_nodes = std::uint32_t{1} << 23;
  static std::uint64_t hash(std::uint32_t parent, std::uintptr_t address) {
    const std::uint64_t mixed = (address ^ (std::uint64_t{parent} << 40 | parent)) * 0x9e3779b97f4a7c15U;
    return mixed ^ (mixed >> 29);
  }
  bool grow() noexcept;

  entry* entries_;
  std::uint32_t size_;
  std::uint32_t count_;
};

// Tells the collector about a node before it gets an id. False: that is not possible now, and the node is not
// added.
class node_sink {
 public:
  // The address that stands for a return address of code in nodes: the same, unless other code was there before.
  virtual std::uintptr_t name_of(std::uintptr_t pc) { return pc; }
  virtual bool announce(std::uint32_t parent, std::uintptr_t address) = 0;

 protected:
  ~node_sink() = default;
};

// Provides the unwind rule of an address that is not in the rule table.
class rule_source {
 public:
  virtual frame_rule rule_for(std::uintptr_t pc) = 0;

  // Rules that were put into the table under another generation are asked for again. 0: all rules are, and none is
  // put into the table.
  std::uint64_t generation = 0;

 protected:
  ~rule_source() = default;
};

class call_path {
 public:
  // The node of the path that ends in `origin`. Only memory that `stack` allows is read. `scripts`: null if no
  // interpreter is known.
  std::uint32_t node_of(const call_origin& origin, stack_memory stack, rule_table& rules, rule_source& source,
                        node_sink& sink, script_source* scripts = nullptr);
  // Unwinds completely, without reusing frames, and tells whether the result equals the path that node_of has just
  // returned.
  bool verify(const call_origin& origin, stack_memory stack, rule_table& rules, rule_source& source);
  // Forgets the previous path, for example because a library was closed.
  void forget() noexcept {
    depth_ = 0;
    script_depth_ = 0;
  }
  // Forgets the path and all nodes, and releases memory.
  void release() noexcept {
    forget();
    nodes_.release();
  }

  void validate() const {
    TARN_INVARIANT("call_path", this, depth_ <= most_frames && script_depth_ <= most_scripts);
    for (std::uint32_t i = 0; i < script_depth_; ++i) {
      TARN_INVARIANT("call_path", this, i == 0 || scripts_[i - 1].host <= scripts_[i].host);
      TARN_INVARIANT("call_path", this, scripts_[i].host < depth_);
    }
  }

  static constexpr std::uint32_t most_frames = 768;
  static constexpr std::uint32_t most_scripts = 1024;

 private:
  friend class call_path_test_access;

  using frame = native_frame;

  // A frame of an interpreted function in the path.
  struct hosted_frame {
    // Index of the native frame that it replaces, possibly together with other script frames.
    std::uint32_t host;
    std::uint32_t node;
    script_frame script;
  };

  std::uint32_t checked_depth(std::uint32_t end, stack_memory& stack) const;
  bool takes_over(const frame& now, std::uint32_t& valid, stack_memory& stack);
  std::uint32_t unwind(const call_origin& origin, stack_memory stack, rule_table& rules, rule_source& source,
                       bool& cut);
  void append(const frame& added);
  std::uint32_t take_scripts(script_source& scripts, std::uint32_t first_new);
  void name_frames(std::uint32_t first, node_sink& sink, script_source* scripts);
  std::uint32_t child_of(std::uint32_t parent, std::uintptr_t address, node_sink& sink,
                         script_source* scripts, const script_frame* script);

  std::uint32_t depth_;
  std::uint32_t fresh_count_;
  frame frames_[most_frames];
  frame fresh_[most_frames];  // innermost first
  std::uint32_t script_depth_;
  hosted_frame scripts_[most_scripts];
  script_frame fresh_scripts_[most_scripts];  // innermost first
  node_table nodes_;
};

}  // namespace tarn::profiler
