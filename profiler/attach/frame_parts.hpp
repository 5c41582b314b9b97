// SPDX-License-Identifier: MIT
// frame_parts: what the parts of thread_state.hpp share, on any processor.
#pragma once

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace tarn::profiler {

inline bool set_set(pid_t thread, int which, const void* from, std::size_t bytes) {
  iovec room = {const_cast<void*>(from), bytes};
  return ptrace(PTRACE_SETREGSET, thread, which, &room) == 0;
}

// Results of system calls that the kernel restarts, which only tracers see: ERESTARTSYS, ERESTARTNOINTR, …
inline constexpr long restart = -512, restart_always = -513, restart_no_hand = -514, restart_by_block = -516;

inline bool is_restart(long result) {
  return result == restart || result == restart_always || result == restart_no_hand ||
         result == restart_by_block;
}

template <std::size_t size>
long find_in(std::span<const unsigned char> code, const std::array<unsigned char, size>& wanted) {
  const auto at = std::search(code.begin(), code.end(), wanted.begin(), wanted.end());
  return at == code.end() ? -1 : at - code.begin();
}

template <class type>
void put(std::vector<unsigned char>& into, std::size_t offset, const type& value) {
  if (into.size() < offset + sizeof value) into.resize(offset + sizeof value);
  std::memcpy(into.data() + offset, &value, sizeof value);
}

using register_sets =
    std::vector<std::pair<int, std::vector<unsigned char>>>;  // kind of the set (NT_…), and its bytes

inline const std::vector<unsigned char>* find_set(const register_sets& sets, int which) {
  for (const auto& [kind, bytes] : sets)
    if (kind == which) return &bytes;
  return nullptr;
}

}  // namespace tarn::profiler
