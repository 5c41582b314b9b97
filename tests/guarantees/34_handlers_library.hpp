// SPDX-License-Identifier: MIT
// What 34_fork_handlers and the libraries that it uses have in common. Written by the program's main thread, outside fork.
#pragma once

struct handlers {
  void (*prepare)();
  void (*parent)();
  void (*child)();
};

// What the library's fork handlers do. Null: nothing.
extern "C" [[gnu::visibility("default")]] handlers* fork_handlers();
