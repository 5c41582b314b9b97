// SPDX-License-Identifier: MIT
// Line 14: a program that names the dynamic linker's __libc_stack_end, as V8 does, has the variable in its own memory, where
// it is null until the program is relocated, which is after tarn's resolver has run.
#include "check.hpp"

extern "C" void* __libc_stack_end;

int main() {
  guarantee::start();
  void* const end = *static_cast<void* volatile*>(&__libc_stack_end);
  TARN_CHECK(end != nullptr, "the end of the stack is not known");
  free(guarantee::hide(malloc(100)));
  return guarantee::holds;
}
