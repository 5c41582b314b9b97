// SPDX-License-Identifier: MIT
// Guarantee 31: a hello-world process has at most 4 MiB more resident memory than under glibc's malloc, and takes at
// most 2 ms longer from start to end (medians of alternating runs).
// The program executes itself, with the preloaded library of its environment and without it.
#include <spawn.h>

#include "../system_probes.hpp"
#include "inject.hpp"

extern char** environ;

namespace {

using namespace guarantee;

constexpr size_t runs = 101;
constexpr size_t memory_bound = 4 * mib;
constexpr double time_bound = 0.002;

struct result {
  double seconds;
  size_t bytes;
};

// The child prints through stdio, as hello world does, and then writes its resident set as raw bytes.
int hello() {
  printf("hello, world\n");
  fflush(stdout);
  const size_t bytes = resident();
  return write(STDOUT_FILENO, &bytes, sizeof bytes) == static_cast<ssize_t>(sizeof bytes) ? holds : broken;
}

char** without_preload() {
  static char* kept[4096];
  size_t count = 0;
  for (char** one = environ; *one != nullptr && count + 1 < 4096; ++one) {
    if (strncmp(*one, "LD_PRELOAD=", 11) != 0) kept[count++] = *one;
  }
  kept[count] = nullptr;
  return kept;
}

result run_hello(char* path, char** environment) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) skip("pipe: %s", strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  char word[] = "hello";
  char* arguments[] = {path, word, nullptr};
  pid_t child = -1;
  const double begin = wall_seconds();
  if (posix_spawn(&child, path, &actions, nullptr, arguments, environment) != 0)
    skip("cannot start %s", path);
  const child_result ended = wait_for(child);
  const double seconds = wall_seconds() - begin;
  TARN_CHECK(ended.good(), "hello world ended with status %d, signal %d", ended.code, ended.signal);
  posix_spawn_file_actions_destroy(&actions);
  char text[64] = {};
  const ssize_t got = read(ends[0], text, sizeof text);
  close(ends[0]);
  close(ends[1]);
  constexpr size_t greeting = sizeof "hello, world\n" - 1;
  TARN_CHECK(got == static_cast<ssize_t>(greeting + sizeof(size_t)), "hello world printed %zd bytes", got);
  size_t bytes;
  memcpy(&bytes, text + greeting, sizeof bytes);
  return {seconds, bytes};
}

template <class number>
number median(number (&values)[runs]) {
  for (size_t i = 1; i < runs; ++i) {
    const number moved = values[i];
    size_t at = i;
    for (; at > 0 && values[at - 1] > moved; --at) values[at] = values[at - 1];
    values[at] = moved;
  }
  return values[runs / 2];
}

struct series {
  double seconds[runs];
  size_t bytes[runs];
  void put(size_t i, const result& one) {
    seconds[i] = one.seconds;
    bytes[i] = one.bytes;
  }
};

}  // namespace

int main(int count, char**) {
  if (count == 2) return hello();
  start();
  if (!system_probes::own_program_can_be_executed()) skip("%s", system_probes::no_execution);
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) skip("/proc/self/exe cannot be read");
  path[length] = '\0';
  static series ours;
  static series libc;
  char** const plain = without_preload();
  for (size_t i = 0; i < runs; ++i) {
    ours.put(i, run_hello(path, environ));
    libc.put(i, run_hello(path, plain));
  }
  const size_t memory = growth(median(libc.bytes), median(ours.bytes));
  const double later = median(ours.seconds) - median(libc.seconds);
  TARN_CHECK(memory <= memory_bound, "%.2f MiB above glibc's resident set", in_mib(memory));
  if (slowness() > 1)
    skip("an emulator's times say nothing about a real machine; memory: %.2f MiB above glibc",
         in_mib(memory));
  TARN_CHECK(later <= time_bound, "%.2f ms above glibc's time", later * 1000);
  measured("%.2f MiB and %.2f ms above glibc", in_mib(memory), later * 1000);
}
