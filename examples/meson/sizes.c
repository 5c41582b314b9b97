/* SPDX-License-Identifier: MIT */
/* sizes: built by Meson with the dependency `tarn-api`. Ends with status 1 if a block is smaller than it should be. */
#include <stdio.h>
#include <tarn/malloc.h>

int main(void) {
  void* const block = tarn_malloc(100);
  const size_t usable = tarn_usable_size(block);
  printf("of a block of 100 bytes %zu may be used\n", usable);
  tarn_free(block);
  return usable >= 100 ? 0 : 1;
}
