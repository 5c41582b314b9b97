// SPDX-License-Identifier: MIT
#include "profiler/record/call_path.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "os/syscall.hpp"
#include "profiler/record/own_calls.hpp"

namespace tarn::profiler {

namespace {

using unwind::frame_step;
using unwind::lowest_code;
using unwind::plain_address;
using unwind::step;

frame_rule rule_of(std::uintptr_t pc, rule_table& rules, rule_source& source) {
  // pc - 1, as the call may be the last instruction of its function.
  const unwind::kept_rule kept = rules.find(pc - 1);
  const bool keeps = source.generation != 0;
  if (keeps && kept.rule.kind != rule_kind::unknown && kept.source == source.generation) return kept.rule;
  const frame_rule rule = source.rule_for(pc - 1);
  if (keeps) rules.insert(pc - 1, {rule, source.generation});
  return rule;
}

}  // namespace

void* map_pages(std::size_t bytes) {
  const long memory = os::system_call(SYS_mmap, 0, static_cast<long>(bytes), PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory < 0 && memory > -4096) return nullptr;
  // The collector recognises the recorder's memory by this flag; it is also useless in a core file.
  recorder::own_call(SYS_madvise, memory, static_cast<long>(bytes), MADV_DONTDUMP);
  return reinterpret_cast<void*>(memory);
}

void unmap_pages(void* memory, std::size_t bytes) {
  os::system_call(SYS_munmap, reinterpret_cast<long>(memory), static_cast<long>(bytes));
}

void wipe_pages(void* memory, std::size_t bytes) {
  const long result = recorder::own_call(SYS_madvise, reinterpret_cast<long>(memory),
                                         static_cast<long>(bytes), MADV_DONTNEED);
  if (result != 0) std::memset(memory, 0, bytes);
}

void node_table::release() noexcept {
  entry* const entries = size_ > first_size ? entries_ : nullptr;
  const std::uint32_t size = size_;
  // Before the memory goes: a jump may leave this.
  entries_ = nullptr;
  size_ = count_ = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (entries != nullptr) unmap_pages(entries, size * sizeof(entry));
  std::fill_n(first_, first_size, entry{});
}

std::uint32_t node_table::find(std::uint32_t parent, std::uintptr_t address) const noexcept {
  if (size_ == 0) return 0;
  for (std::uint64_t index = hash(parent, address);; ++index) {
    const entry& here = entries_[index & (size_ - 1)];
    if (here.id == 0 || (here.parent == parent && here.address == address)) return here.id;
  }
}

bool node_table::grow() noexcept {
  if (size_ == 0) {
    entries_ = first_;
    size_ = first_size;
    return true;
  }
  const std::uint32_t size = size_ == first_size ? next_size : 2 * size_;
  auto* entries = static_cast<entry*>(map_pages(size * sizeof(entry)));
  if (entries == nullptr) return false;
  // Not kept across fork: a child finds its tracker wiped, and has no use for this table.
  for (std::uint32_t old = 0; old < size_; ++old) {
    const entry& moved = entries_[old];
    if (moved.id == 0) continue;
    std::uint64_t index = hash(moved.parent, moved.address);
    while (entries[index & (size - 1)].id != 0) ++index;
    entries[index & (size - 1)] = moved;
  }
  entry* const old = size_ > first_size ? entries_ : nullptr;
  const std::uint32_t old_size = size_;
  entries_ = entries;
  size_ = size;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // as in release()
  if (old != nullptr) unmap_pages(old, old_size * sizeof(entry));
  return true;
}

std::uint32_t node_table::insert(std::uint32_t parent, std::uintptr_t address) noexcept {
  if (count_ >= most_nodes || (2 * count_ >= size_ && !grow())) return 0;
  std::uint64_t index = hash(parent, address);
  while (entries_[index & (size_ - 1)].id != 0) ++index;
  entries_[index & (size_ - 1)] = {address, parent, ++count_};
  return count_;
}

std::uint32_t call_path::child_of(std::uint32_t parent, std::uintptr_t address, node_sink& sink,
                                  script_source* scripts, const script_frame* script) {
  std::uint32_t node = nodes_.find(parent, address);
  if (node != 0) return node;
  if (script != nullptr) scripts->send(*script, address);
  if (sink.announce(parent, address)) node = nodes_.insert(parent, address);
  return node != 0 ? node : parent;
}

// Reads the interpreted functions that the thread executes now.
void call_path::take_scripts(script_source& scripts) {
  frame* const* const native = path();
  const std::uint32_t count = scripts.frames({native, depth_}, fresh_scripts_, most_scripts);
  std::uint32_t host = depth_ - 1;
  // From the innermost outwards, so that one pass over the native frames finds the hosts; stored outermost first.
  for (std::uint32_t index = 0; index < count; ++index) {
    const script_frame& fresh = fresh_scripts_[index];
    // An anchor on another stack, or none, tells nothing: assign it to the outermost frame.
    if (fresh.anchor < native[depth_ - 1]->stack_pointer) host = 0;
    while (host > 0 && fresh.anchor >= native[host - 1]->stack_pointer) --host;
    hosted_frame& kept = scripts_[count - 1 - index];
    const bool same = count - 1 - index < script_depth_ && kept.script.code == fresh.code &&
                      kept.script.instruction == fresh.instruction && kept.script.check == fresh.check;
    kept.host = host;
    if (!same) kept.node = 0;
    kept.script = fresh;  // its caller may be another one
  }
  script_depth_ = count;
}

// The node of the script frames that stand for native frame `host`, the next of which is scripts_[next].
std::uint32_t call_path::name_scripts(std::uint32_t node, std::uint32_t& next, node_sink& sink,
                                      script_source& scripts) {
  for (const std::uint32_t host = scripts_[next].host; next < script_depth_ && scripts_[next].host == host;
       ++next) {
    hosted_frame& script = scripts_[next];
    if (script.node == 0 || script.parent != node) {
      script.parent = node;
      script.node = child_of(node, scripts.address_of(script.script), sink, &scripts, &script.script);
    }
    node = script.node;
  }
  return node;
}

// The node of the path: of the native frames, and of the script frames that replace some of them.
std::uint32_t call_path::name_frames(node_sink& sink, script_source* scripts) {
  std::uint32_t next = 0;
  std::uint32_t node = 0;
  for (std::uint32_t index = 0; index < depth_; ++index) {
    if (next < script_depth_ && scripts_[next].host == index) {
      node = name_scripts(node, next, sink, *scripts);
      continue;
    }
    frame& native = *path()[index];
    if (native.node == 0 || native.parent != node) {
      native.parent = node;
      native.node = child_of(node, sink.name_of(native.pc), sink, nullptr, nullptr);
    }
    node = native.node;
  }
  return node;
}

// Finds out how to step from `now` to its caller. What depends on more of the stack than that the caller's registers are
// read from it is not kept: `out` is of no generation then.
void call_path::learn(frame& out, const frame_step& now, stack_memory& stack, rule_table& rules,
                      rule_source& source) {
  const frame_rule rule = rule_of(now.pc, rules, source);
  frame_step next;
  const bool more = step(rule, now.stack_pointer, now.frame_pointer, stack, next);
  const bool ends = rule.kind == rule_kind::end;
  const bool is_kept = ends || (more && rule.kind != rule_kind::realigned);
  const std::uint32_t generation = generation_ + (next.by_frame_pointer && !ends ? 1 : 0);
  out = {now.pc,
         now.stack_pointer,
         now.frame_pointer,
         next.stack_pointer,
         more ? next.pc_slot : 0,
         next.frame_pointer_slot,
         0,
         0,
         is_kept ? generation : generation_ - 2,
         more ? bucket_of(next.pc, next.stack_pointer) : std::uint16_t{0}};
}

// The frame pointer of the caller of `inner`, the outermost frame of the path so far. False: it cannot be read.
bool call_path::read_frame_pointer(const frame* const* inner, stack_memory& stack,
                                   std::uintptr_t& frame_pointer) const {
  for (; inner != path_ + most_frames; ++inner) {
    const std::uintptr_t slot = (*inner)->frame_pointer_slot;
    if (slot != 0) return stack.read(slot, frame_pointer);
  }
  return true;  // that of the origin
}

// The next frame of the path, which so far begins at `inner`. `bucket`: where it was last time, and is from now on. It takes the
// bucket of none of the path: there are more buckets than frames. Null: the path has ended.
call_path::frame* call_path::find(std::uintptr_t pc, std::uintptr_t stack_pointer,
                                  std::uintptr_t first_frame_pointer, std::uint16_t& bucket,
                                  const frame* const* inner, stack_memory& stack, rule_table& rules,
                                  rule_source& source) {
  const frame* const* const end = path_ + most_frames;
  frame_step now = {pc, stack_pointer, first_frame_pointer, 0, 0, false};
  if (inner != end && (now.pc <= lowest_code || !read_frame_pointer(inner, stack, now.frame_pointer)))
    return nullptr;
  if (is_known(frames_[bucket], now)) return &frames_[bucket];
  for (bucket = bucket_of(now.pc, now.stack_pointer);;
       bucket = static_cast<std::uint16_t>((bucket + 1) & last_bucket())) {
    frame& here = frames_[bucket];
    if (is_known(here, now)) return &here;
    if (std::find(inner, end, &here) != end) {
      if (2 * (end - inner) > last_bucket()) add_buckets();
      continue;
    }
    if ((here.generation | 1) == (generation_ | 1) && ++displaced_ > last_bucket()) add_buckets();
    learn(here, now, stack, rules, source);
    return &here;
  }
}

// Makes path_ the current path. If it is too long, the outermost frames are dropped. Returns whether the nodes of its
// frames are those of this path.
bool call_path::unwind(const call_origin& origin, stack_memory stack, rule_table& rules,
                       rule_source& source) {
  std::uintptr_t pc = origin.return_address;
  std::uintptr_t stack_pointer = origin.stack_pointer;
  const std::uint32_t generation = generation_;
  std::uint16_t first = bucket_of(pc, stack_pointer);
  std::uint16_t* bucket = &first;
  std::uint32_t node = frames_[first].node;  // of the next frame, as the frame before it says
  bool is_named = true;
  frame** at = path_ + most_frames;
  do {
    frame* here = &frames_[*bucket];
    if (__builtin_expect(is_of(*here, pc, stack_pointer, generation), 1) == 0) {
      here = find(pc, stack_pointer, origin.frame_pointer, *bucket, at, stack, rules, source);
      if (here == nullptr) break;
      is_named = is_named && here->node != 0;
    }
    *--at = here;
    is_named = is_named && here->node == node;
    node = here->parent;
    stack_pointer = here->caller_stack_pointer;
    bucket = &here->caller;
    if (here->pc_slot == 0 || !stack.read(here->pc_slot, pc)) break;
    pc = plain_address(pc);
  } while (at != path_);
  depth_ = static_cast<std::uint32_t>(path_ + most_frames - at);
  return is_named && node == 0;
}

std::uint32_t call_path::node_of(const call_origin& origin, stack_memory stack, rule_table& rules,
                                 rule_source& source, node_sink& sink, script_source* scripts) {
  const bool is_named = unwind(origin, stack, rules, source);
  if (scripts != nullptr) {
    take_scripts(*scripts);
  } else {
    script_depth_ = 0;
  }
  if (os::is_check_due()) validate();
  return is_named && script_depth_ == 0 ? path_[most_frames - 1]->node : name_frames(sink, scripts);
}

bool call_path::verify(const call_origin& origin, stack_memory stack, rule_table& rules,
                       rule_source& source) {
  std::uintptr_t pc = origin.return_address;
  std::uintptr_t stack_pointer = origin.stack_pointer;
  std::uintptr_t frame_pointer = origin.frame_pointer;
  for (std::uint32_t left = depth_; left > 0; --left) {
    if (path()[left - 1]->pc != pc) return false;
    frame_step next;
    if (!step(rule_of(pc, rules, source), stack_pointer, frame_pointer, stack, next)) return left == 1;
    pc = next.pc;
    stack_pointer = next.stack_pointer;
    frame_pointer = next.frame_pointer;
  }
  return depth_ == 0;
}

}  // namespace tarn::profiler
