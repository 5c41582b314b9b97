// SPDX-License-Identifier: MIT
// Line 35, at each instruction between the entry of tarn's fork handler and the system call by which it blocks signals:
// a signal handler that interrupts fork there forks itself, beside threads that allocate. The handler's child must be
// able to allocate. (Before the entry glibc 2.36 holds a lock of its own, for which a fork in a signal handler waits
// for ever.) How: the trap flag stops fork() after each instruction; the handler of SIGTRAP forks at the instruction
// under test.
#include "kernel_emulator.hpp"

using namespace guarantee;

#if defined(__x86_64__)

namespace {

constexpr long trap_flag = 0x100;
constexpr long tries = 2;  // at each instruction: a thread must hold a lock at this moment
volatile bool stop = false;
volatile long step = 0;
volatile long fork_at = -1;
volatile long enters_library_at = 0;
volatile long blocks_signals_at = 0;
uintptr_t library_start = 0;
uintptr_t library_end = 0;
volatile pid_t child_of_handler = 0;

void allocate_and_free(size_t count) {
  for (size_t size = 16; size < 64 * kib; size *= 2) {
    void* blocks[100];
    for (size_t i = 0; i < count; ++i) blocks[i] = malloc(size);
    for (size_t i = 0; i < count; ++i) free(blocks[i]);
  }
}

void* allocate_until_stopped(void*) {
  while (!stop) allocate_and_free(32);
  return nullptr;
}

// Where the allocator's library lies.
void find_library() {
  FILE* const maps = fopen("/proc/self/maps", "re");
  static char line[512];
  while (maps != nullptr && fgets(line, sizeof line, maps) != nullptr) {
    uintptr_t start = 0;
    uintptr_t end = 0;
    if (strstr(line, "libtarn") == nullptr || sscanf(line, "%lx-%lx", &start, &end) != 2) continue;
    if (library_start == 0) library_start = start;
    library_end = end;
  }
  if (maps != nullptr) fclose(maps);
}

bool is_sigprocmask(const greg_t* registers) {
  const auto* const code = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
  return code[0] == 0x0f && code[1] == 0x05 && registers[REG_RAX] == SYS_rt_sigprocmask;
}

void on_trap(int, siginfo_t*, void* context) {
  greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  step = step + 1;
  const auto at = static_cast<uintptr_t>(registers[REG_RIP]);
  if (enters_library_at == 0 && at >= library_start && at < library_end) enters_library_at = step;
  if (blocks_signals_at == 0 && is_sigprocmask(registers)) blocks_signals_at = step;
  if (step != fork_at && blocks_signals_at == 0) return;
  registers[REG_EFL] &= ~trap_flag;
  if (step != fork_at) return;
  const pid_t child = fork();
  if (child == 0) {
    alarm(5 * slowness());
    allocate_and_free(100);
    _exit(holds);
  }
  child_of_handler = child;
}

// With a trap after each instruction until the system call that blocks signals. The child ends at once.
pid_t fork_in_steps() {
  step = 0;
  enters_library_at = 0;
  blocks_signals_at = 0;
  asm volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
  const pid_t child = fork();
  asm volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
  if (child == 0) _exit(holds);
  return child;
}

int status_of(pid_t child) {
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  return status;
}

void fork_at_instruction(long instruction) {
  for (long i = 0; i < tries; ++i) {
    fork_at = instruction;
    child_of_handler = 0;
    usleep(static_cast<useconds_t>(i * 50));
    const int outer = status_of(fork_in_steps());
    const int inner = status_of(child_of_handler);
    TARN_CHECK(inner == 0, "a handler forks at instruction %ld of fork(): its child ends with status 0x%x%s",
               instruction, inner, inner == SIGALRM ? ": it hangs" : "");
    TARN_CHECK(outer == 0, "instruction %ld: the child of the interrupted fork() ends with status 0x%x",
               instruction, outer);
  }
}

}  // namespace

int main() {
  start();
  struct sigaction action = {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGTRAP, &action, nullptr);
  find_library();
  if (library_start == 0) skip("the allocator is no libtarn");
  pthread_t threads[3];
  for (pthread_t& thread : threads) thread = start_thread(allocate_until_stopped, nullptr);
  // The first calls also resolve symbols.
  for (int i = 0; i < 3; ++i) status_of(fork_in_steps());
  const long first = enters_library_at;
  const long last = blocks_signals_at;
  if (first == 0 || last == 0) skip("no trap flag, or fork() blocks no signals");
  for (long instruction = first; instruction < last; ++instruction) fork_at_instruction(instruction);
  stop = true;
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
}

#else

int main() { skip("single steps by the trap flag are x86-64's"); }

#endif
