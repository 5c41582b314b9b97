// SPDX-License-Identifier: MIT
// traced_calls: single calls, each between stores to two marks, for traced_calls.py, which counts the instructions and the cache lines of each
//   in valgrind's trace of all accesses.
// Owner: the benchmark runner, which starts one process of it under each allocator.
// Thread safety: one thread.
// Invariant: between the stores lies one call of the allocator, nothing else; blocks are not written to, so that a line of
//   a block counts only if the allocator touches it. All work of a scene is done before, unmarked, until caches are warm.
// Output: the addresses of the marks and of the stack, then a line for each scene: its name, its marked calls, and by how many
//   their sum is divided.
#include <new>

#include "../workloads/support.hpp"

// Clang does not declare it unless it is told to.
void operator delete(void* block, std::size_t size) noexcept;

namespace {

constexpr std::size_t longest_batch = 1000;
std::size_t batch_length = longest_batch;
constexpr int warm_up_rounds = 6;
constexpr std::size_t cache_line = 64;

// Of the calls that count, and of those before.
struct alignas(cache_line) marks {
  volatile char begin;
  alignas(cache_line) volatile char end;
};
marks counted, warming;
marks* current = &warming;

template <class Call>
void* marked(Call call) {
  marks& at = *current;
  at.begin = 0;
  void* const block = call();
  at.end = 0;
  bench::escape(block);
  return block;
}

void marked_free(void* block) {
  marked([block] { return std::free(block), nullptr; });
}

// Runs the scene until it is warm, and then once more with marks; `calls` are marked in it, which make up `operations`.
template <class Scene>
void run(const char* name, std::size_t calls, std::size_t operations, Scene scene) {
  for (int round = 0; round < warm_up_rounds; ++round) scene();
  current = &counted;
  scene();
  current = &warming;
  std::printf("%s\t%zu\t%zu\n", name, calls, operations);
}

template <class Take, class Give>
void pairs(const char* name, Take take, Give give) {
  constexpr std::size_t count = 50;
  run(name, 2 * count, count, [=] {
    for (std::size_t i = 0; i < count; ++i) {
      void* const block = marked(take);
      marked([=] { return give(block), nullptr; });
    }
  });
}

void batches(const char* name, std::size_t size) {
  static void* blocks[longest_batch];
  run(name, 2 * batch_length, batch_length, [&] {
    for (std::size_t i = 0; i < batch_length; ++i) blocks[i] = marked([size] { return std::malloc(size); });
    for (std::size_t i = 0; i < batch_length; ++i) marked_free(blocks[i]);
  });
}

void growth() {
  constexpr std::size_t largest = std::size_t{64} << 10U;
  constexpr std::size_t steps = 21;  // from 16 bytes to `largest` at most
  run("realloc, 16 B to 64 KiB by half", steps + 1, steps, [] {
    void* block = nullptr;
    for (std::size_t size = 16; size <= largest; size += size / 2)
      block = marked([=] { return std::realloc(block, size); });
    marked_free(block);
  });
}

}  // namespace

int main(int count, char** words) {
  if (count == 2) batch_length = bench::parse_number(words[1], longest_batch, "BATCH", words[0]);
  char on_stack = 0;
  std::printf("%p\t%p\t%p\n", static_cast<void*>(const_cast<char*>(&counted.begin)),
              static_cast<void*>(const_cast<char*>(&counted.end)), static_cast<void*>(&on_stack));
  for (const auto& [name, size] : {std::pair{"pair, 64 B", 64},
                                   {"pair, 4 KiB", 4 << 10},
                                   {"pair, 32 KiB", 32 << 10},
                                   {"pair, 1 MiB", 1 << 20}})
    pairs(
        name, [size = static_cast<std::size_t>(size)] { return std::malloc(size); }, std::free);
  pairs(
      "calloc, 64 B", [] { return std::calloc(1, 64); }, std::free);
  pairs(
      "aligned, 4 KiB", [] { return std::aligned_alloc(4096, 4096); }, std::free);
  pairs(
      "new and sized delete, 64 B", [] { return ::operator new(64); },
      [](void* block) { ::operator delete(block, std::size_t{64}); });
  batches("batch, 64 B", 64);
  batches("batch, 512 B", 512);
  batches("batch, 4 KiB", 4096);
  growth();
  return 0;
}
