// SPDX-License-Identifier: MIT
// call_path: the current call path of a thread, as a node of a tree. Each frame is looked up by its registers: how to step
// to its caller's, and its node, are remembered. The stack is read again at each step, so a path is as correct as the
// unwind information.
//
// Where the thread executes interpreted functions, their frames replace the interpreter's native frame that runs
// them.
//
// Owned by one thread. Zeroed memory is an empty tracker: fork wipes it for the child, which begins anew.
// Invariant: the last depth_ of path_ lead from the outermost frame inwards, at falling stack addresses;
// scripts_[0..script_depth_) likewise; their hosts never decrease, and are below depth_ (validate()).
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/invariant.hpp"
#include "profiler/record/script_frame.hpp"
#include "unwind/frame_rule.hpp"
#include "unwind/frame_step.hpp"
#include "unwind/rule_table.hpp"

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

// (parent, address) -> id, counted from 1. The first nodes lie in the table itself, as most threads have few.
class node_table {
 public:
  std::uint32_t find(std::uint32_t parent, std::uintptr_t address) const noexcept;  // 0: none
  // Requires that the pair is not in the table. 0: out of memory, or too many nodes.
  std::uint32_t insert(std::uint32_t parent, std::uintptr_t address) noexcept;

  // Releases memory; the table is empty then.
  void release() noexcept;

 private:
  struct entry {
    std::uint64_t address;
    std::uint32_t parent;
    std::uint32_t id;  // 0: empty
  };
  static constexpr std::uint32_t first_size = 64;
  static constexpr std::uint32_t next_size = 256;  // a page
  static constexpr std::uint32_t most_nodes = std::uint32_t{1} << 23;
  static std::uint64_t hash(std::uint32_t parent, std::uintptr_t address) {
    const std::uint64_t mixed = (address ^ (std::uint64_t{parent} << 40 | parent)) * 0x9e3779b97f4a7c15U;
    return mixed ^ (mixed >> 29);
  }
  bool grow() noexcept;

  entry* entries_;  // first_, or memory of its own
  std::uint32_t size_;
  std::uint32_t count_;
  entry first_[first_size];
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
  // Unwinds by the rules alone, and tells whether the result equals the path that node_of has just returned.
  bool verify(const call_origin& origin, stack_memory stack, rule_table& rules, rule_source& source);
  // Forgets all frames, for example because a library was closed.
  void forget() noexcept {
    generation_ += 2;
    depth_ = 0;
    script_depth_ = 0;
  }
  // Forgets all frames and all nodes, and releases memory.
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
    std::uint32_t parent;  // the node with which `node` was looked up
    std::uint32_t node;    // 0: not looked up
    script_frame script;
  };

  // The frames of a recursive function, at regular distances, get different buckets.
  [[nodiscard]] std::uint16_t bucket_of(std::uintptr_t pc, std::uintptr_t stack_pointer) const {
    return static_cast<std::uint16_t>((pc * 0x9e3779b97f4a7c15U >> 40 ^ stack_pointer >> 4) & last_bucket());
  }
  [[nodiscard]] std::uint32_t last_bucket() const { return more_buckets_ | (first_buckets - 1); }
  // Frames stay where they are: the path, and the buckets of callers, remain valid.
  void add_buckets() {
    if (last_bucket() == most_buckets - 1) return;
    more_buckets_ = 2 * last_bucket() + 1;
    displaced_ = 0;
  }
  static bool is_of(const frame& one, std::uintptr_t pc, std::uintptr_t stack_pointer,
                    std::uint32_t generation) {
    return one.pc == pc && one.stack_pointer == stack_pointer && one.generation == generation;
  }
  [[nodiscard]] bool is_known(const frame& one, const unwind::frame_step& now) const {
    return is_of(one, now.pc, now.stack_pointer, generation_) ||
           (is_of(one, now.pc, now.stack_pointer, generation_ + 1) && one.frame_pointer == now.frame_pointer);
  }
  [[nodiscard]] frame* const* path() const { return path_ + most_frames - depth_; }
  void learn(frame& out, const unwind::frame_step& now, stack_memory& stack, rule_table& rules,
             rule_source& source);
  [[gnu::noinline]] frame* find(std::uintptr_t pc, std::uintptr_t stack_pointer,
                                std::uintptr_t first_frame_pointer, std::uint16_t& bucket,
                                const frame* const* inner, stack_memory& stack, rule_table& rules,
                                rule_source& source);
  bool read_frame_pointer(const frame* const* inner, stack_memory& stack,
                          std::uintptr_t& frame_pointer) const;
  bool unwind(const call_origin& origin, stack_memory stack, rule_table& rules, rule_source& source);
  void take_scripts(script_source& scripts);
  std::uint32_t name_scripts(std::uint32_t node, std::uint32_t& next, node_sink& sink,
                             script_source& scripts);
  std::uint32_t name_frames(node_sink& sink, script_source* scripts);
  std::uint32_t child_of(std::uint32_t parent, std::uintptr_t address, node_sink& sink,
                         script_source* scripts, const script_frame* script);

  static constexpr std::uint32_t first_buckets = 32;  // powers of two
  static constexpr std::uint32_t most_buckets = 1024;
  static_assert(most_buckets > most_frames);

  // In this order, a thread with few nodes and short paths touches two pages: the first frames, and the end of path_ with
  // what follows it.
  frame frames_[most_buckets];  // up to last_bucket() in use
  frame* path_[most_frames];    // the last depth_ of it, outermost first
  std::uint32_t depth_;
  std::uint32_t script_depth_;
  std::uint32_t generation_;    // even; frames of others are forgotten
  std::uint32_t more_buckets_;  // 0, or last_bucket()
  std::uint32_t displaced_;     // frames that gave way to others since buckets were added
  node_table nodes_;
  hosted_frame scripts_[most_scripts];
  script_frame fresh_scripts_[most_scripts];  // innermost first
};

}  // namespace tarn::profiler
