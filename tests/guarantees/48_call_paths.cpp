// SPDX-License-Identifier: MIT
// Guarantee 48: the call paths of guarded blocks are read without a fault on any stack. The program allocates in each
// of these places as without tarn: in a library that was loaded at the address of another one; in code that was mapped
// there; on a coroutine's stack between guard pages, at every depth; on a stack of 16 KiB to which assembly has
// switched; on a stack of which a part becomes inaccessible later; on an alternate signal stack; on a thread's stack
// that the program has mapped; and in a sandbox that allows only what malloc needs. Run with TARN_GUARDED=1, so that
// each allocation reads a path.
#include <limits.h>
#include <pthread.h>
#include <ucontext.h>

#include <algorithm>

#include "sandbox.hpp"

using namespace guarantee;

namespace {

using allocate_function = void* (*)(size_t);
using frame_function = void* (*)(allocate_function, size_t);

constexpr size_t stack_bytes = 64 * kib;  // less than the large library's frame, more than the small one's
constexpr size_t block_bytes = 100;
constexpr int repeats = 20;

constinit frame_function allocate_in_frame = nullptr;

// Maps readable and writable memory between inaccessible pages.
char* stack_between_guards(size_t bytes) {
  constexpr size_t guard = 256 * kib;
  void* const memory =
      mmap(nullptr, bytes + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TARN_CHECK(memory != MAP_FAILED, "mmap failed");
  char* const stack = static_cast<char*>(memory) + guard;
  TARN_CHECK(mprotect(stack, bytes, PROT_READ | PROT_WRITE) == 0, "mprotect failed");
  return stack;
}

// ---- two libraries at one address ----

struct library {
  void* handle;
  frame_function function;
};

library open_library(const char* name) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
  TARN_CHECK(length > 0, "/proc/self/exe cannot be read");
  path[length] = '\0';
  strcpy(strrchr(path, '/') + 1, name);
  library out{dlopen(path, RTLD_NOW), nullptr};
  TARN_CHECK(out.handle != nullptr, "%s cannot be opened", path);
  out.function = reinterpret_cast<frame_function>(dlsym(out.handle, "allocate_in_frame"));
  TARN_CHECK(out.function != nullptr, "%s lacks its function", path);
  return out;
}

void allocate_repeatedly() {
  for (int i = 0; i < repeats; ++i) free(allocate_in_frame(malloc, block_bytes));
}

// Calls the large library's function, so that tarn knows its frame, and closes the library.
frame_function use_and_close_large() {
  const library large = open_library("48_large.so");
  allocate_in_frame = large.function;
  allocate_repeatedly();
  dlclose(large.handle);
  return large.function;
}

// Loads the small library at the address where the large one was.
void replace_library() {
  for (int i = 0; i < 100; ++i) {
    const frame_function before = use_and_close_large();
    const library small = open_library("48_small.so");
    allocate_in_frame = small.function;
    if (small.function == before) return;
    dlclose(small.handle);
  }
  skip("no library is loaded at the address of the one before");
}

// Copies the small library's code to where the large one was, without unwind tables.
void replace_by_mapped_code() {
  const library small = open_library("48_small.so");
  const frame_function before = use_and_close_large();
  const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t page = reinterpret_cast<uintptr_t>(before) & ~(page_bytes - 1);
  void* const memory = mmap(reinterpret_cast<void*>(page), page_bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory == MAP_FAILED) skip("code cannot be mapped where a library was: %s", strerror(errno));
  constexpr size_t code_bytes = 64;
  memcpy(reinterpret_cast<void*>(before), reinterpret_cast<void*>(small.function), code_bytes);
  __builtin___clear_cache(reinterpret_cast<char*>(before), reinterpret_cast<char*>(before) + code_bytes);
  allocate_in_frame = before;
}

// ---- stacks ----

constinit ucontext_t main_context{};
constinit ucontext_t coroutine{};
constinit size_t depth_bytes = 0;

void coroutine_body() {
  auto* const room = static_cast<volatile char*>(__builtin_alloca(depth_bytes + 16));
  room[0] = 1;
  allocate_repeatedly();
  room[depth_bytes] = 2;
}

void run_on_coroutine(char* stack, size_t bytes) {
  getcontext(&coroutine);
  coroutine.uc_stack.ss_sp = stack;
  coroutine.uc_stack.ss_size = bytes;
  coroutine.uc_link = &main_context;
  makecontext(&coroutine, coroutine_body, 0);
  swapcontext(&main_context, &coroutine);
}

int coroutine_at_every_depth() {
  replace_library();
  char* const stack = stack_between_guards(stack_bytes);
  for (depth_bytes = 0; depth_bytes < stack_bytes - 40 * kib; depth_bytes += 496) {
    run_on_coroutine(stack, stack_bytes);
  }
  return holds;
}

int coroutine_in_mapped_code() {
  replace_by_mapped_code();
  run_on_coroutine(stack_between_guards(stack_bytes), stack_bytes);
  return holds;
}

void on_signal(int) { allocate_repeatedly(); }

int alternate_signal_stack() {
  replace_library();
  stack_t alternate{};
  alternate.ss_sp = stack_between_guards(stack_bytes);
  alternate.ss_size = stack_bytes;
  TARN_CHECK(sigaltstack(&alternate, nullptr) == 0, "sigaltstack failed");
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  raise(SIGUSR1);
  return holds;
}

int mapped_thread_stack() {
  replace_library();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  // On aarch64 the minimum is 128 KiB.
  const size_t bytes = std::max<size_t>(stack_bytes, PTHREAD_STACK_MIN);
  TARN_CHECK(pthread_attr_setstack(&attributes, stack_between_guards(bytes), bytes) == 0,
             "pthread_attr_setstack failed");
  pthread_t thread{};
  const auto body = [](void*) -> void* {
    allocate_repeatedly();
    return nullptr;
  };
  TARN_CHECK(pthread_create(&thread, &attributes, body, nullptr) == 0, "pthread_create failed");
  pthread_join(thread, nullptr);
  return holds;
}

// Calls `body` on another stack, which ends at `end`. This function's unwind table describes the stack on which it was
// called, so it is wrong for the other one: the frame that it describes lies a kilobyte beyond the other stack's end.
[[gnu::noinline]] void call_on_stack(char* end, void (*body)()) {
  char room[1024];
  asm volatile("" : : "r"(room) : "memory");
#if defined(__x86_64__)
  asm volatile("mov %%rsp, %%rbx\n\tmov %0, %%rsp\n\tcall *%1\n\tmov %%rbx, %%rsp"
               :
               : "r"(end), "r"(body)
               : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
#else
  asm volatile("mov x19, sp\n\tmov sp, %0\n\tblr %1\n\tmov sp, x19"
               :
               : "r"(end), "r"(body)
               : "x19", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
                 "x13", "x14", "x15", "x16", "x17", "x18", "x30", "memory", "cc");
#endif
  asm volatile("" : : "r"(room) : "memory");
}

void allocate_and_free() { free(malloc(block_bytes)); }

int stack_switched_by_assembly() {
  const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const size_t least : {16 * kib, 32 * kib, stack_bytes}) {
    char* const end = stack_between_guards(stack_bytes) + stack_bytes;
    // Frames that begin at all distances from the end of the last page.
    for (size_t offset = 0; offset < 4 * kib; offset += 16) call_on_stack(end - offset, allocate_and_free);
    const size_t bytes = least > page_bytes ? least : page_bytes;
    if (bytes < stack_bytes) {
      TARN_CHECK(mprotect(end - stack_bytes, stack_bytes - bytes, PROT_NONE) == 0, "mprotect failed");
    }
    call_on_stack(end, allocate_and_free);
  }
  return holds;
}

// The upper half of a stack becomes inaccessible; the lower half is then used as a stack of its own.
int stack_cut_in_two() {
  char* const stack = stack_between_guards(2 * stack_bytes);
  call_on_stack(stack + stack_bytes - 512, allocate_and_free);
  TARN_CHECK(mprotect(stack + stack_bytes, stack_bytes, PROT_NONE) == 0, "mprotect failed");
  for (size_t offset = 0; offset < 4 * kib; offset += 16) {
    call_on_stack(stack + stack_bytes - offset, allocate_and_free);
  }
  return holds;
}

// The filter ends the process at any call that malloc does not need.
int stacks_in_sandbox() {
  constexpr long allowed[] = {SYS_mmap,  SYS_munmap, SYS_mremap,     SYS_mprotect,    SYS_madvise,
                              SYS_write, SYS_exit,   SYS_exit_group, SYS_rt_sigreturn};
  // Without TARN_LIB this program is recorded by `tarn profile`.
  if (getenv("TARN_LIB") == nullptr) skip("a recorder makes more system calls than malloc needs");
  close_sandbox(allowed, sandbox_call::prctl_call);
  return stack_switched_by_assembly();
}

// ---- libraries that other threads replace ----

constinit bool finished = false;

void* replace_and_allocate(void* unused) {
  while (!__atomic_load_n(&finished, __ATOMIC_RELAXED)) {
    for (const char* name : {"48_large.so", "48_small.so"}) {
      const library one = open_library(name);
      for (int i = 0; i < 3; ++i) free(one.function(malloc, block_bytes));
      dlclose(one.handle);
    }
  }
  return unused;
}

int libraries_replaced_by_threads() {
  pthread_t threads[3];
  for (pthread_t& thread : threads) {
    TARN_CHECK(pthread_create(&thread, nullptr, replace_and_allocate, nullptr) == 0, "pthread_create failed");
  }
  sleep_ms(300);
  __atomic_store_n(&finished, true, __ATOMIC_RELAXED);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  return holds;
}

}  // namespace

int main() {
  start();
  let_sandboxes_read_clock();
  constexpr struct {
    const char* what;
    int (*body)();
  } cases[] = {
      {"a replaced library on a coroutine's stack", coroutine_at_every_depth},
      {"mapped code where a library was", coroutine_in_mapped_code},
      {"a replaced library on the alternate signal stack", alternate_signal_stack},
      {"a replaced library on a thread's stack", mapped_thread_stack},
      {"a stack that assembly has switched to", stack_switched_by_assembly},
      {"a stack whose upper half is forbidden", stack_cut_in_two},
      {"a stack that assembly has switched to, in a sandbox", stacks_in_sandbox},
      {"libraries that threads replace", libraries_replaced_by_threads},
  };
  for (const auto& one : cases) {
    const child_result result = run_in_child(30, one.body);
    if (result.exited && result.code == not_checkable) continue;  // the child has printed the reason
    expect_good(result, one.what);
  }
  return holds;
}
