// SPDX-License-Identifier: MIT
// consumer: checks whether malloc and operator new are tarn's. Usage: consumer replaced|kept
// A large block raises tarn's statistics only if tarn served it.
#include <tarn/malloc.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr std::size_t block_size = std::size_t{32} << 20;

std::uint64_t in_use() {
  tarn_stats stats = {};
  tarn_get_stats(&stats);
  return stats.in_use;
}

// volatile, so that the compiler does not remove an allocation that nothing reads.
bool malloc_is_tarn() {
  const std::uint64_t before = in_use();
  void* volatile block = std::malloc(block_size);
  const bool raised = in_use() >= before + block_size;
  std::free(block);
  return raised;
}

bool new_is_tarn() {
  const std::uint64_t before = in_use();
  char* volatile block = new char[block_size];
  const bool raised = in_use() >= before + block_size;
  delete[] block;
  return raised;
}

bool own_names_work() {
  void* block = tarn_malloc(100);
  const bool works = block != nullptr && tarn_usable_size(block) >= 100;
  tarn_free(block);
  return works;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: consumer replaced|kept\n", stderr);
    return 2;
  }
  const bool expected = std::strcmp(argv[1], "replaced") == 0;
  if (malloc_is_tarn() != expected || new_is_tarn() != expected || !own_names_work()) {
    std::fprintf(stderr, "consumer: malloc %s tarn's, new %s tarn's, tarn_malloc %s; expected: %s\n",
                 malloc_is_tarn() ? "is" : "is not", new_is_tarn() ? "is" : "is not",
                 own_names_work() ? "works" : "fails", argv[1]);
    return 1;
  }
  return 0;
}
