// SPDX-License-Identifier: MIT
// A program for the tests of names: two functions that allocate 20 blocks each, in an unnamed namespace.
#include <cstdlib>
#include <cstring>

#ifdef TAKES_ADDRESS  // in an executable at a fixed address this makes a PLT stub of malloc
void* (*volatile taken)(std::size_t) = std::malloc;
#endif

namespace {

[[gnu::noinline]] char* first_maker(std::size_t bytes) {
  char* block = static_cast<char*>(std::malloc(bytes));
  std::memset(block, 1, bytes);
  return block;
}

[[gnu::noinline]] char* second_maker(std::size_t bytes) {
  char* block = static_cast<char*>(std::calloc(2, bytes));
  std::memset(block, 2, bytes);
  return block;
}

}  // namespace

int main() {
  int sum = 0;
  for (int round = 0; round < 20; ++round) {
    char* first = first_maker(100000);
    char* second = second_maker(100000);
    sum += first[5] + second[7];
    std::free(first);
    std::free(second);
  }
  return sum == 60 ? 0 : 1;
}
