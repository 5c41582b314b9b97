// SPDX-License-Identifier: MIT
#include "profiler/attach/thread_state.hpp"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "profiler/attach/frame_parts.hpp"

namespace tarn::profiler {

namespace {

bool get_set(pid_t thread, int which, void* into, std::size_t& bytes) {
  iovec room = {into, bytes};
  if (ptrace(PTRACE_GETREGSET, thread, which, &room) != 0) return false;
  bytes = room.iov_len;
  return true;
}

}  // namespace

bool thread_state::read_from(pid_t thread) {
  if (!get_registers(thread, registers) || ptrace(PTRACE_GETSIGMASK, thread, sizeof mask, &mask) != 0)
    return false;
  vectors.clear();
  for (const int which : vector_sets()) {
    std::vector<unsigned char> room(std::size_t{64} << 10);
    std::size_t bytes = room.size();
    if (!get_set(thread, which, room.data(), bytes)) continue;
    room.resize(bytes);
    vectors.emplace_back(which, std::move(room));
  }
  return true;
}

bool get_registers(pid_t thread, register_set& set) {
  std::size_t bytes = sizeof set;
  return get_set(thread, NT_PRSTATUS, &set, bytes);
}

bool set_vectors(pid_t thread, const thread_state& state) {
  bool done = true;
  for (const auto& [which, bytes] : state.vectors)
    done = set_set(thread, which, bytes.data(), bytes.size()) && done;
  return done;
}

}  // namespace tarn::profiler
