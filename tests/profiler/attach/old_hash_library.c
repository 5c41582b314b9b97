// SPDX-License-Identifier: MIT
// A library whose symbols have only the old hash table (DT_HASH).
#include <unistd.h>

int old_hash_function(void);
int old_hash_function(void) { return getppid(); }
