/* SPDX-License-Identifier: MIT
 * settings_program [NAME…]: prints what the names read as. Linked with a library by the name of jemalloc, so that its own
 * malloc_conf counts. */
#include "jemalloc_calls.h"

#ifdef WITH_CONF
const char* malloc_conf = "dirty_decay_ms:1234,thp:never";
#endif

static void write_line(void* context, const char* text) { fprintf((FILE*)context, "%s", text); }

int main(int count, char** names) {
  memset(malloc(100), 0, 100); /* a heap that the statistics can show */
  for (int i = 1; i < count; ++i) {
    const char* name = names[i];
    if (strncmp(name, "print:", 6) == 0) {
      malloc_stats_print(write_line, stdout, name + 6);
      continue;
    }
    if (strcmp(name, "print_to_message") == 0) {
      malloc_message = NULL;
      malloc_stats_print(NULL, NULL, NULL);
      continue;
    }
    union {
      bool flag;
      unsigned number;
      ssize_t wide;
      const char* text;
      unsigned char bytes[8];
    } value = {.wide = 0};
    size_t length = 8;
    int result = mallctl(name, &value, &length, NULL, 0);
    if (result == EINVAL && length == 1) {
      result = mallctl(name, &value, &length, NULL, 0);
      printf("%s=%s\n", name, value.flag ? "true" : "false");
    } else if (result == EINVAL && length == 4) {
      result = mallctl(name, &value, &length, NULL, 0);
      printf("%s=%u\n", name, value.number);
    } else if (result != 0) {
      printf("%s: %s\n", name, error_name(result));
    } else if (strcmp(name, "version") == 0 || strstr(name, "thp") != NULL ||
               strstr(name, "percpu") != NULL) {
      printf("%s=%s\n", name, value.text);
    } else {
      printf("%s=%zd\n", name, value.wide);
    }
  }
  return 0;
}
