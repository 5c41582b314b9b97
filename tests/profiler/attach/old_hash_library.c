// SPDX-License-Identifier: MIT
// A library whose symbols have only the old hash table (DT_HASH), one of them without a type.
#include <unistd.h>

int old_hash_function(void);
int old_hash_function(void) { return getppid(); }

__asm__(
    ".text\n"
    ".globl untyped_function\n"
    "untyped_function: nop\n");
