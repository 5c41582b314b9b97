// SPDX-License-Identifier: MIT
// What calls may take beside many scopes: where the system refuses memory (RLIMIT_AS), a request is refused within 5 us
// after the first few, though 20,000 scopes and their empty spans wait; memory that these have left is found first; and no
// call takes more than 3 KiB of a stack.
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tarn/scope.hpp"

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
bool failed = false;

#define CHECK(holds, ...)                  \
  do {                                     \
    if (!(holds)) {                        \
      failed = true;                       \
      std::printf("BROKEN: " __VA_ARGS__); \
      std::printf("\n");                   \
    }                                      \
  } while (0)

// ---- stack ----

constexpr std::size_t stack_bytes = 32 * kib;
constexpr std::size_t most_of_a_call = 3 * kib;
constexpr unsigned char paint = 0xa5;

ucontext_t of_main;
ucontext_t of_call;

// What the function uses of a stack of its own.
std::size_t stack_of(void (*function)()) {
  static unsigned char stack[stack_bytes];
  std::memset(stack, paint, sizeof stack);
  getcontext(&of_call);
  of_call.uc_stack.ss_sp = stack;
  of_call.uc_stack.ss_size = sizeof stack;
  of_call.uc_link = &of_main;
  makecontext(&of_call, function, 0);
  swapcontext(&of_main, &of_call);
  return static_cast<std::size_t>(std::end(stack) - std::find_if(std::begin(stack), std::end(stack),
                                                                 [](unsigned char c) { return c != paint; }));
}

void* kept[2000];

void use_a_scope() {
  tarn_scope_options options = TARN_SCOPE_OPTIONS;
  options.limit = 4 * mib;
  const tarn_scope s = tarn_scope_begin("stack", &options);
  tarn_scope_entry entry;
  if (tarn_scope_enter(s, &entry) == 0) std::abort();
  for (std::size_t i = 0; i < std::size(kept); ++i) kept[i] = std::malloc(i * 7 % 5000);
  for (std::size_t i = 0; i < std::size(kept); ++i) {
    if (i % 50 != 0) std::free(kept[i]);
  }
  tarn_scope_leave(&entry);
  tarn_scope_end(s, nullptr);
  for (std::size_t i = 0; i < std::size(kept); i += 50) std::free(kept[i]);
}

void check_stack() {
  use_a_scope();  // the dynamic linker, which takes 3 KiB, has bound what this calls
  const std::size_t idle = stack_of([] {});
  const std::size_t used = stack_of(use_a_scope) - idle;
  std::printf("a scope's calls take %zu bytes of stack\n", used);
  CHECK(used <= most_of_a_call, "a call takes %zu bytes of stack", used);
}

// ---- refusals ----

using clock_type = std::chrono::steady_clock;

std::size_t address_space() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  std::size_t pages = 0;
  if (file == nullptr || std::fscanf(file, "%zu", &pages) != 1) std::abort();
  std::fclose(file);
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// The best mean of 100 refusals among some; a busy machine makes others slower. Null calls: memory was found.
double refusal_us(std::size_t size) {
  constexpr int rounds = 60;
  constexpr int calls = 100;
  double best = 1e9;
  for (int r = 0; r < rounds; ++r) {
    const auto begin = clock_type::now();
    for (int i = 0; i < calls; ++i) {
      if (std::malloc(size) != nullptr) return -1;
    }
    best =
        std::min(best, std::chrono::duration<double, std::micro>(clock_type::now() - begin).count() / calls);
  }
  return best;
}

void check_refusals() {
  constexpr double most_us = 5;  // 0.8 to 1.9 on an x86-64 of 2023
  constexpr std::size_t scope_count = 20000;
  std::vector<std::unique_ptr<tarn::scope>> scopes;
  for (std::size_t i = 0; i < scope_count; ++i) {
    scopes.push_back(std::make_unique<tarn::scope>("idle"));
    if (i % 10 != 0) continue;
    const tarn::scope_entry in = scopes.back()->enter();
    std::free(std::malloc(1000));
  }
  std::vector<void*> blocks;
  blocks.reserve(1000000);
  const rlimit limit{address_space() + 64 * mib, RLIM_INFINITY};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "no limit of address space can be set");
  for (const std::size_t size : {1000000UL, 100000UL, 1000UL}) {
    while (void* const block = std::malloc(size)) blocks.push_back(block);
    const double us = refusal_us(size);
    CHECK(us >= 0, "a request of %zu bytes is met after refusals", size);
    CHECK(us <= most_us, "a refused request of %zu bytes takes %.2f us", size, us);
    std::printf("a refused request of %zu bytes takes %.2f us\n", size, us);
  }
  // What becomes free is found at once.
  for (std::size_t i = 0; i < blocks.size(); i += 2) std::free(blocks[i]);
  for (const std::size_t size : {1000UL, 100000UL}) {
    void* const block = std::malloc(size);
    CHECK(block != nullptr, "malloc(%zu) fails after half of all blocks were freed", size);
    std::free(block);
  }
  std::_Exit(failed ? 1 : 0);
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  check_stack();
  check_refusals();
  return failed ? 1 : 0;
}
