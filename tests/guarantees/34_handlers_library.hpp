// SPDX-License-Identifier: MIT
// The interface between 34_fork_handlers and the libraries that it uses. Only the program's main thread writes it,
// outside fork.
#pragma once

struct handlers {
  void (*prepare)();
  void (*parent)();
  void (*child)();
};

// What the library's fork handlers do; a null member does nothing.
extern "C" [[gnu::visibility("default")]] handlers* fork_handlers();
