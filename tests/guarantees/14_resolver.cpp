// SPDX-License-Identifier: MIT
// Line 14: an IFUNC resolver of the program, which runs before the dynamic linker has given thread-local data their first
// values, may allocate and free; its blocks can be used and freed in main, and options are read all the same.
#include "inject.hpp"

using namespace guarantee;

namespace {

void* kept[3];

int one() { return 1; }
int two() { return 2; }

}  // namespace

extern "C" {
int (*pick())() {
  bool good = true;
  for (int round = 0; round < 100; ++round) {
    void* const block = hide(malloc(100));
    good = good && block != nullptr;
    free(block);
  }
  kept[0] = malloc(24);
  kept[1] = malloc(5000);
  kept[2] = calloc(1, 1 << 20);
  for (const void* const block : kept) good = good && block != nullptr;
  return good ? two : one;
}
int chosen() __attribute__((ifunc("pick")));
}

int main() {
  start();
  TARN_CHECK(chosen() == 2, "a resolver got no memory");
  const size_t sizes[] = {24, 5000, 1 << 20};
  for (int i = 0; i < 3; ++i) {
    memset(kept[i], 1, sizes[i]);
    free(kept[i]);
  }
  // Present when tarn is preloaded.
  using describe = int(size_t, void*);
  struct option {
    const char* words[6];
  };
  if (auto* const at = reinterpret_cast<describe*>(dlsym(RTLD_DEFAULT, "tarn_option_at"))) {
    option first{};
    TARN_CHECK(at(0, &first) == 0 && first.words[1] != nullptr && strcmp(first.words[1], "777") == 0,
               "TARN_DECAY_MS=777 is not in effect: %s", first.words[1]);
  }
  void* const block = take(100);
  give(block);
  measured("102 blocks in a resolver");
  return holds;
}
