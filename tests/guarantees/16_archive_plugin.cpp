// SPDX-License-Identifier: MIT
// The library of 16_closed_archive: libtarn-api.a has become a part of it.
#include <string.h>

#include "tarn/malloc.h"

extern "C" __attribute__((visibility("default"))) void use_heap() {
  void* blocks[200];
  for (size_t i = 0; i < 200; ++i) {
    blocks[i] = tarn_malloc(20 + i * 20);
    if (blocks[i] != nullptr) memset(blocks[i], 7, 20);
  }
  for (void* const block : blocks) tarn_free(block);
}
