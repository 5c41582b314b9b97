// SPDX-License-Identifier: MIT
// stand_in: a small library with libtarn's interface, for tests of the command without the engine. It replaces malloc
// by one that calls the C library's, answers for options, and reports to TARN_STATS at exit.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/malloc.h>
#include <unistd.h>

extern "C" {

void* __libc_malloc(size_t size);
void __libc_free(void* block);

__attribute__((visibility("default"))) void* malloc(size_t size) { return __libc_malloc(size); }

__attribute__((visibility("default"))) void free(void* block) { __libc_free(block); }

__attribute__((visibility("default"))) int tarn_option_at(size_t index, tarn_option* out) noexcept {
  if (index > 1) return ENOENT;
  const char* decay = getenv("TARN_DECAY_MS");
  if (index == 0) {
    *out = {"decay_ms",
            decay != nullptr ? decay : "1000",
            "1000",
            "milliseconds, -1 for never",
            "Idle memory goes back after this time.",
            decay != nullptr ? "environment" : "default"};
  } else {
    *out = {"stats", "off", "off", "off, stderr or a file", "Statistics at exit.", "default"};
  }
  return 0;
}

__attribute__((visibility("default"))) const char* tarn_version(void) noexcept { return "9.8.7"; }

__attribute__((destructor)) static void report() {
  const char* path = getenv("TARN_STATS");
  if (path == nullptr || *path != '/') return;
  const int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return;
  const char* line = "{\"returned\": 1048576, \"pid\": 1, \"program\": \"x\"}\n";
  const ssize_t written = write(file, line, strlen(line));
  close(file);
  if (written < 0) _exit(99);
}

}  // extern "C"
