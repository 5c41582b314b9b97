// SPDX-License-Identifier: MIT
#include "profiler/record/call_path.hpp"

#include <sys/mman.h>

#include <cstring>

#include "os/syscall.hpp"
#include "profiler/record/own_calls.hpp"

namespace tarn::profiler {

namespace {

using unwind::frame_step;
using unwind::plain_address;
using unwind::step;

constexpr std::uint32_t not_checked = ~std::uint32_t{0};

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
  if (size_ != 0) unmap_pages(entries_, size_ * sizeof(entry));
  entries_ = nullptr;
  size_ = count_ = 0;
}

std::uint32_t node_table::find(std::uint32_t parent, std::uintptr_t address) const noexcept {
  if (size_ == 0) return 0;
  for (std::uint64_t index = hash(parent, address);; ++index) {
    const entry& here = entries_[index & (size_ - 1)];
    if (here.id == 0 || (here.parent == parent && here.address == address)) return here.id;
  }
}

bool node_table::grow() noexcept {
  const std::uint32_t size = size_ == 0 ? first_size : 2 * size_;
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
  if (size_ != 0) unmap_pages(entries_, size_ * sizeof(entry));
  entries_ = entries;
  size_ = size;
  return true;
}

std::uint32_t node_table::insert(std::uint32_t parent, std::uintptr_t address) noexcept {
  if (count_ >= most_nodes || (2 * count_ >= size_ && !grow())) return 0;
  std::uint64_t index = hash(parent, address);
  while (entries_[index & (size_ - 1)].id != 0) ++index;
  entries_[index & (size_ - 1)] = {address, parent, ++count_};
  return count_;
}

// How many of frames_[0..end), counted from the outermost, are still unchanged on the stack.
std::uint32_t call_path::checked_depth(std::uint32_t end, stack_memory& stack) const {
  for (std::uint32_t index = 0; index < end; ++index) {
    const frame& one = frames_[index];
    std::uintptr_t word = 0;
    if (!stack.read(one.pc_slot, word) || plain_address(word) != one.pc) return index;
    if (one.needs_frame_pointer && one.frame_pointer_slot != 0 &&
        (!stack.read(one.frame_pointer_slot, word) || word != one.frame_pointer)) {
      return index;
    }
  }
  return end;
}

// Whether the previous path contains `now`, so that it can be reused from there outwards. Drops the frames inside
// of `now`, which have returned.
bool call_path::takes_over(const frame& now, std::uint32_t& valid, stack_memory& stack) {
  while (depth_ > 0 && frames_[depth_ - 1].stack_pointer < now.stack_pointer) --depth_;
  if (depth_ == 0) return false;
  frame& top = frames_[depth_ - 1];
  if (top.stack_pointer != now.stack_pointer || top.pc != now.pc) return false;
  if (top.needs_frame_pointer && top.frame_pointer != now.frame_pointer) return false;
  if (valid == not_checked) valid = checked_depth(depth_ - 1, stack);
  if (valid < depth_ - 1) {
    depth_ = valid;
    return false;
  }
  top.pc_slot = now.pc_slot;
  top.frame_pointer = now.frame_pointer;
  top.frame_pointer_slot = now.frame_pointer_slot;
  return true;
}

void call_path::append(const frame& added) {
  frame& here = frames_[depth_];
  here = added;
  here.needs_frame_pointer =
      added.by_frame_pointer ||
      (depth_ > 0 && frames_[depth_ - 1].frame_pointer_slot == 0 && frames_[depth_ - 1].needs_frame_pointer);
  ++depth_;
}

std::uint32_t call_path::child_of(std::uint32_t parent, std::uintptr_t address, node_sink& sink,
                                  script_source* scripts, const script_frame* script) {
  std::uint32_t node = nodes_.find(parent, address);
  if (node != 0) return node;
  if (script != nullptr) scripts->tell(*script, address);
  if (sink.announce(parent, address)) node = nodes_.insert(parent, address);
  return node != 0 ? node : parent;
}

// Reads the interpreted functions that the thread executes now. Returns the first native frame whose node may
// differ from before.
std::uint32_t call_path::take_scripts(script_source& scripts, std::uint32_t first_new) {
  const std::uint32_t count = scripts.frames({frames_, depth_}, fresh_scripts_, most_scripts);
  std::uint32_t host = depth_ - 1;
  std::uint32_t first_changed = first_new;
  // From the innermost outwards, so that one pass over the native frames finds the hosts; stored outermost first.
  for (std::uint32_t index = 0; index < count; ++index) {
    const script_frame& fresh = fresh_scripts_[index];
    // An anchor on another stack, or none, tells nothing: assign it to the outermost frame.
    if (fresh.anchor < frames_[depth_ - 1].stack_pointer) host = 0;
    while (host > 0 && fresh.anchor >= frames_[host - 1].stack_pointer) --host;
    hosted_frame& kept = scripts_[count - 1 - index];
    const bool same = count - 1 - index < script_depth_ && kept.host == host &&
                      kept.script.code == fresh.code && kept.script.instruction == fresh.instruction &&
                      kept.script.check == fresh.check;
    if (same) {
      kept.script = fresh;  // its caller may be another one
      continue;
    }
    if (kept.host < first_changed && count - 1 - index < script_depth_) first_changed = kept.host;
    if (host < first_changed) first_changed = host;
    kept = {host, 0, fresh};
  }
  // Where script frames have gone, their native frame gets a node of its own again.
  for (std::uint32_t index = count; index < script_depth_; ++index) {
    if (scripts_[index].host < first_changed) first_changed = scripts_[index].host;
  }
  script_depth_ = count;
  return first_changed;
}

// Sets the nodes of the native frames from `first` on, and of the script frames that replace them.
void call_path::name_frames(std::uint32_t first, node_sink& sink, script_source* scripts) {
  std::uint32_t next = 0;
  while (next < script_depth_ && scripts_[next].host < first) ++next;
  std::uint32_t node = first == 0 ? 0 : frames_[first - 1].node;
  for (std::uint32_t index = first; index < depth_; ++index) {
    const bool is_host = next < script_depth_ && scripts_[next].host == index;
    if (!is_host) node = child_of(node, sink.name_of(frames_[index].pc), sink, nullptr, nullptr);
    for (; next < script_depth_ && scripts_[next].host == index; ++next) {
      const script_frame& script = scripts_[next].script;
      node = child_of(node, scripts->address_of(script), sink, scripts, &script);
      scripts_[next].node = node;
    }
    frames_[index].node = node;
  }
}

// Makes frames_ the current path, without nodes. Returns how many of the outermost frames were reused.
std::uint32_t call_path::unwind(const call_origin& origin, stack_memory stack, rule_table& rules,
                                rule_source& source, bool& cut) {
  frame now = {origin.return_address, origin.stack_pointer, origin.frame_pointer, 0, 0, 0, false, false};
  std::uint32_t valid = not_checked;
  fresh_count_ = 0;
  bool taken = false;
  cut = false;
  for (;;) {
    taken = takes_over(now, valid, stack);
    if (taken) break;
    const frame_rule rule = rule_of(now.pc, rules, source);
    frame_step next;
    const bool more = step(rule, now.stack_pointer, now.frame_pointer, stack, next);
    now.by_frame_pointer = next.by_frame_pointer && rule.kind != rule_kind::end;
    fresh_[fresh_count_++] = now;
    if (!more) break;
    cut = fresh_count_ == most_frames;
    if (cut) break;
    now = {next.pc, next.stack_pointer, next.frame_pointer, next.pc_slot, next.frame_pointer_slot, 0, false,
           false};
  }
  if (!taken) depth_ = 0;
  // If the path is too long, the outermost frames are dropped, and the next path is unwound completely.
  if (depth_ + fresh_count_ > most_frames) depth_ = 0;
  const std::uint32_t kept = depth_;
  while (fresh_count_ > 0) append(fresh_[--fresh_count_]);
  return kept;
}

std::uint32_t call_path::node_of(const call_origin& origin, stack_memory stack, rule_table& rules,
                                 rule_source& source, node_sink& sink, script_source* scripts) {
  bool cut = false;
  std::uint32_t first = unwind(origin, stack, rules, source, cut);
  if (scripts != nullptr) {
    first = take_scripts(*scripts, first);
  } else if (script_depth_ != 0) {
    first = 0;
    script_depth_ = 0;
  }
  if (os::is_check_due()) validate();
  name_frames(first, sink, scripts);
  const std::uint32_t node = frames_[depth_ - 1].node;
  if (cut) forget();
  return node;
}

bool call_path::verify(const call_origin& origin, stack_memory stack, rule_table& rules,
                       rule_source& source) {
  std::uintptr_t pc = origin.return_address;
  std::uintptr_t stack_pointer = origin.stack_pointer;
  std::uintptr_t frame_pointer = origin.frame_pointer;
  for (std::uint32_t left = depth_; left > 0; --left) {
    if (frames_[left - 1].pc != pc) return false;
    frame_step next;
    if (!step(rule_of(pc, rules, source), stack_pointer, frame_pointer, stack, next)) return left == 1;
    pc = next.pc;
    stack_pointer = next.stack_pointer;
    frame_pointer = next.frame_pointer;
  }
  return depth_ == 0;
}

}  // namespace tarn::profiler
