// SPDX-License-Identifier: MIT
// probe_size: allocates blocks of 17 bytes, each of which takes more, for probe_size_test.py.
#include <malloc.h>

#include <cstdio>
#include <cstdlib>

int main() {
  constexpr int count = 200'000;  // some 100 samples
  std::size_t usable = 0;
  for (int i = 0; i < count; ++i) {
    void* const block = std::malloc(17);
    usable = malloc_usable_size(block);
    std::free(block);
  }
  std::printf("usable %zu\n", usable);
  return 0;
}
