// SPDX-License-Identifier: MIT
// A library whose constructor and destructor call the program that opens it: both run under the dynamic linker's lock.
void library_begins(void);
void library_ends(void);

__attribute__((constructor)) static void begin(void) { library_begins(); }
__attribute__((destructor)) static void end(void) { library_ends(); }
