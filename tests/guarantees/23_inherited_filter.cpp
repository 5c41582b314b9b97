// SPDX-License-Identifier: MIT
// Guarantee 23: a filter from before the program's start, which allows threads, but ends the process for calls that a
// program with threads need not make: mincore and getcpu. Threads that allocate and fill blocks of 70,000 bytes live.
#include "sandbox.hpp"

namespace {

using namespace guarantee;

constexpr size_t size = 70'000;
constexpr size_t count = 300;

void* fill_blocks(void*) {
  void** const blocks = own_array<void*>(count);
  for (size_t i = 0; i < count; ++i) {
    blocks[i] = malloc(size);
    TARN_CHECK(blocks[i] != nullptr, "malloc(%zu) failed", size);
    memset(blocks[i], 1, size);
  }
  for (size_t i = 0; i < count; ++i) free(blocks[i]);
  return nullptr;
}

int inside() {
  for (int i = 0; i < 3; ++i) {
    pthread_t other;
    TARN_CHECK(pthread_create(&other, nullptr, fill_blocks, nullptr) == 0, "no thread");
    fill_blocks(nullptr);
    pthread_join(other, nullptr);
  }
  return holds;
}

bool close_filter() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mincore, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getcpu, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  return install_filter(rules);
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count > 1) return inside();
  const pid_t child = fork();
  TARN_CHECK(child >= 0, "fork: %s", strerror(errno));
  if (child == 0) {
    if (!close_filter()) _exit(not_checkable);
    execl("/proc/self/exe", arguments[0], "inside", nullptr);
    _exit(not_checkable);
  }
  const auto result = wait_for(child);
  if (result.exited && result.code == not_checkable) skip("no filter can be installed here");
  TARN_CHECK(result.signal != SIGSYS, "a call that the filter forbids");
  TARN_CHECK(result.exited && result.code == holds, "status %d, signal %d", result.code, result.signal);
  return holds;
}
