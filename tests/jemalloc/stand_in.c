/* SPDX-License-Identifier: MIT
 * stand_in: a library whose SONAME is libjemalloc.so.2, so that the programs that are linked with it ask for jemalloc, as
 * programs of a distribution do. Its functions do nothing: a program in which they are called fails. */
#include <stddef.h>

const char* malloc_conf = NULL;
void (*malloc_message)(void* context, const char* text) = NULL;
#define STAND_IN(name) \
  int name(void) { return 999; }
STAND_IN(mallocx)
STAND_IN(rallocx)
STAND_IN(xallocx)
STAND_IN(sallocx)
STAND_IN(dallocx)
STAND_IN(sdallocx)
STAND_IN(nallocx)
STAND_IN(mallctl)
STAND_IN(mallctlnametomib)
STAND_IN(mallctlbymib)
STAND_IN(malloc_stats_print)
