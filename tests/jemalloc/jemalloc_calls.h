/* SPDX-License-Identifier: MIT
 * What the C programs of this folder share. They get jemalloc's names from the library that is preloaded. */
#ifndef TARN_TESTS_JEMALLOC_CALLS_H
#define TARN_TESTS_JEMALLOC_CALLS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <string.h>

/* Ends the test with a line that names what does not hold. */
#define REQUIRE(condition)                                                    \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "BROKEN: %s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

static inline const char* error_name(int error) {
  switch (error) {
    case 0: return "0";
    case ENOENT: return "ENOENT";
    case EINVAL: return "EINVAL";
    case EPERM: return "EPERM";
    case EAGAIN: return "EAGAIN";
    case EFAULT: return "EFAULT";
    case ENOMEM: return "ENOMEM";
    default: return "another error";
  }
}

#endif
