// SPDX-License-Identifier: MIT
// Line 52: a library that overwrites the first instructions of libc's munmap and madvise, as UCX and Open MPI do, hears of
// every page of a block that goes, also if blocks were freed before.
#include "52_heard_memory.hpp"

using namespace guarantee;

namespace {

// Writes a jump to `target` over the function.
template <class Function>
void lead(const char* name, Function* target) {
  void* const function = dlsym(RTLD_DEFAULT, name);
  TARN_CHECK(function != nullptr, "no function %s", name);
#if defined(__x86_64__)
  unsigned char jump[14] = {0xff, 0x25, 0, 0, 0, 0};  // jmp *(%rip)
#else
  unsigned char jump[16] = {0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6};  // ldr x16, 8; br x16
#endif
  memcpy(jump + sizeof jump - sizeof target, &target, sizeof target);
  const auto at = reinterpret_cast<uintptr_t>(function);
  const auto whole = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = at / whole * whole;
  const size_t bytes = (at + sizeof jump + whole - 1) / whole * whole - first;
  if (mprotect(reinterpret_cast<void*>(first), bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
    skip("code cannot be made writable: %s", strerror(errno));
  memcpy(function, jump, sizeof jump);
  __builtin___clear_cache(static_cast<char*>(function), static_cast<char*>(function) + sizeof jump);
}

}  // namespace

int main() {
  start();
  // Idle memory, and so a background thread, from before.
  for (int i = 0; i < 20; ++i) {
    void* const block = take(4 * mib);
    memset(block, 1, 4 * mib);
    give(block);
  }
  lead("munmap", heard::listen_to_munmap);
  lead("madvise", heard::listen_to_madvise);
  return heard::check_all();
}
