// SPDX-License-Identifier: MIT
// call_path: a thread's present call path as a node of a tree, cheaply. It remembers the path of the time before, and
// unwinds only as far as something has changed; all that it takes over is checked against the stack, return address by
// return address, so that a path is right wherever the unwind information is.
//
// Where the thread is in interpreted functions, their frames stand in the path in the place of the interpreter's native frame
// that runs them.
//
// Owned by one thread. Zeroed memory is an empty tracker: a forked child finds it wiped, and begins anew.
// Invariant: frames_[0..depth_) lead from the outermost frame inwards, by falling addresses; frames_[i].node is the
// node of the path up to i. scripts_[0..script_depth_) likewise, and their hosts do not fall.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/frame_rule.hpp"
#include "os/frame_step.hpp"
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

// Memory from the system alone, zeroed; null when there is none.
void* map_pages(std::size_t bytes);
void unmap_pages(void* memory, std::size_t bytes);
// Private memory becomes zeroes, and takes no room.
void wipe_pages(void* memory, std::size_t bytes);

// (parent, address) -> id, counted from 1.
class node_table {
 public:
  std::uint32_t find(std::uint32_t parent, std::uintptr_t address) const noexcept;  // 0: none
  // Requires that it is not there. 0: there is no memory, or there are too many.
  std::uint32_t insert(std::uint32_t parent, std::uintptr_t address) noexcept;

  // Gives its memory back; it is empty then.
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

// Makes a node known to the collector before it gets an id; false: it cannot be now.
class node_sink {
 public:
  virtual bool announce(std::uint32_t parent, std::uintptr_t address) = 0;

 protected:
  ~node_sink() = default;
};

// Asked for a rule that is in no table.
class rule_source {
 public:
  virtual frame_rule rule_for(std::uintptr_t pc) = 0;

  // Rules that a table got under another generation are asked for anew. 0: so are all, and the table keeps none.
  std::uint64_t generation = 0;

 protected:
  ~rule_source() = default;
};

class call_path {
 public:
  // The node of the path that ends in `origin`. Of the stack only what `stack` gives is read.
  // `scripts`: null where no interpreter is known.
  std::uint32_t node_of(const call_origin& origin, stack_memory stack, rule_table& rules, rule_source& source,
                        node_sink& sink, script_source* scripts = nullptr);
  // Unwinds without taking anything over, and tells whether that gives the path that node_of has just given.
  bool verify(const call_origin& origin, stack_memory stack, rule_table& rules, rule_source& source);
  // Whatever is remembered may be wrong from here on (a library has gone).
  void forget() noexcept {
    depth_ = 0;
    script_depth_ = 0;
  }
  // Gives memory back; all its nodes are unknown then.
  void release() noexcept {
    forget();
    nodes_.release();
  }

  static constexpr std::uint32_t most_frames = 768;
  static constexpr std::uint32_t most_scripts = 1024;
  // Of its own size, what serves interpreted functions alone.
  static constexpr std::size_t script_bytes() {
    return most_scripts * (sizeof(hosted_frame) + sizeof(script_frame));
  }

 private:
  struct frame {
    std::uintptr_t pc;
    std::uintptr_t stack_pointer;
    std::uintptr_t frame_pointer;
    std::uintptr_t pc_slot;             // where pc was read
    std::uintptr_t frame_pointer_slot;  // where frame_pointer was read; 0: it is the inner frame's
    std::uint32_t node;
    bool needs_frame_pointer;  // this frame or one outside it goes by frame_pointer
    bool by_frame_pointer;     // this one does
  };

  // A frame of an interpreted function in the path.
  struct hosted_frame {
    std::uint32_t host;  // the native frame in whose place it stands, with others
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
