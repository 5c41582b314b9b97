/* SPDX-License-Identifier: MIT */
/* in_c: the functions of tarn/malloc.h in C: a growing text, an aligned block, statistics. The program's own malloc is
 * not replaced, so what comes from a tarn_ function goes back by tarn_free. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <tarn/malloc.h>

struct text {
  char* bytes;
  size_t length;
  size_t capacity;
};

/* Returns 0 when there is no memory; the text is unchanged then. */
static int append(struct text* to, const char* what) {
  const size_t more = strlen(what);
  if (to->length + more + 1 > to->capacity) {
    /* tarn_good_size: the most bytes that take no more memory than these. */
    const size_t wanted = tarn_good_size(2 * (to->length + more + 1));
    char* const longer = tarn_realloc(to->bytes, wanted);
    if (longer == NULL) return 0;
    to->bytes = longer;
    to->capacity = wanted;
  }
  memcpy(to->bytes + to->length, what, more + 1);
  to->length += more;
  return 1;
}

int main(void) {
  struct text all = {NULL, 0, 0};
  for (int i = 0; i < 10000; ++i) {
    if (!append(&all, "a line of text\n")) {
      fputs("no memory\n", stderr);
      return 1;
    }
  }
  printf("%zu bytes of text\n", all.length);
  tarn_free(all.bytes);

  void* const page = tarn_aligned_alloc(4096, 4096);
  printf("a block at a multiple of 4096: %s\n", (uintptr_t)page % 4096 == 0 ? "yes" : "no");
  tarn_free(page);

  char json[4096];
  const size_t length = tarn_stats_json(json, sizeof json);
  printf("statistics as JSON: %s\n", length < sizeof json && json[0] == '{' ? "complete" : "cut off");
  return 0;
}
