// SPDX-License-Identifier: MIT
// tasks: the threads of this process and their rights, as /proc shows them, for the guarantees on rights (32 and 33).
// Owner: each program includes this header once. Thread safety: one thread. Nothing here allocates, so looking at
// threads neither starts nor ends one of the allocator's.
#pragma once

#include <errno.h>
#include <sys/syscall.h>

#include "check.hpp"

// Present when libtarn is preloaded, null under any other allocator.
extern "C" size_t tarn_trim(size_t keep) noexcept __attribute__((weak));

namespace guarantee {

// Opened at start-up, because the program may change its root folder later.
inline const int proc_folder = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

// Calls visit(tid) for each thread of the process.
template <typename function>
void for_each_task(function visit) {
  const int folder = openat(proc_folder, "self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) skip("no /proc/self/task");
  alignas(8) char entries[4096];
  long bytes;
  while ((bytes = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
    for (long at = 0; at < bytes;) {
      const char* const entry = entries + at;
      uint16_t length;
      memcpy(&length, entry + 16, sizeof length);
      const long task = strtol(entry + 19, nullptr, 10);  // 0 for "." and "..", which is no thread's number
      if (task != 0) visit(task);
      at += length;
    }
  }
  close(folder);
}

inline size_t count_tasks() {
  size_t count = 0;
  for_each_task([&count](long) { ++count; });
  return count;
}

// The rights of a thread, as text: identities, capabilities, filters, namespaces and the root folder.
struct rights {
  char text[2048];
  size_t length;

  void add(const char* bytes, size_t count) {
    if (count > sizeof text - 1 - length) count = sizeof text - 1 - length;
    memcpy(text + length, bytes, count);
    length += count;
    text[length] = '\0';
  }
};

inline void add_status(rights& out, long task) {
  constexpr const char* fields[] = {
      "Uid:",    "Gid:",    "Groups:",     "CapInh:",  "CapPrm:",         "CapEff:",
      "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:", "Seccomp_filters:"};
  char path[64];
  snprintf(path, sizeof path, "self/task/%ld/status", task);
  char status[4096];
  const int file = openat(proc_folder, path, O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = file < 0 ? 0 : read(file, status, sizeof status - 1);
  if (file >= 0) close(file);
  status[bytes > 0 ? bytes : 0] = '\0';
  for (const char* line = status; *line != '\0';) {
    const size_t length = strcspn(line, "\n");
    for (const char* field : fields) {
      if (strncmp(line, field, strlen(field)) == 0) out.add(line, length + 1);
    }
    line += length + (line[length] == '\n' ? 1 : 0);
  }
}

inline rights rights_of(long task) {
  constexpr const char* links[] = {"root",   "ns/mnt", "ns/user",   "ns/net", "ns/pid",
                                   "ns/ipc", "ns/uts", "ns/cgroup", "ns/time"};
  rights out{};
  add_status(out, task);
  for (const char* link : links) {
    char path[96];
    char target[128];
    snprintf(path, sizeof path, "self/task/%ld/%s", task, link);
    const ssize_t length = readlinkat(proc_folder, path, target, sizeof target);
    out.add(link, strlen(link));
    out.add(" ", 1);
    if (length > 0) out.add(target, static_cast<size_t>(length));
    out.add("\n", 1);
  }
  return out;
}

// Fails unless all threads of the process have the rights of the calling one. A thread that has just ended has no entry
// and is left out.
inline void expect_one_set_of_rights(const char* after) {
  const rights mine = rights_of(syscall(SYS_gettid));
  for_each_task([&mine, after](long task) {
    const rights its = rights_of(task);
    if (strncmp(its.text, "Uid:", 4) != 0) return;
    for (size_t at = 0; at < mine.length; at += strcspn(mine.text + at, "\n") + 1) {
      const int own = static_cast<int>(strcspn(mine.text + at, "\n"));
      const int other = static_cast<int>(strcspn(its.text + at, "\n"));
      if (own == other && strncmp(mine.text + at, its.text + at, static_cast<size_t>(own)) == 0) continue;
      fail("after %s the program has \"%.*s\", its thread %ld \"%.*s\"", after, own, mine.text + at, task,
           other, its.text + at);
    }
  });
}

// Allocates and frees 19 MiB, which makes an allocator start its background thread if it has one; or as much as asked.
inline constexpr size_t much = 64 * mib;
inline void free_megabytes(size_t bytes = 19 * mib) {
  constexpr size_t size = 300 * kib;
  void* blocks[much / size];
  const size_t count = bytes / size;
  for (size_t i = 0; i < count; ++i) {
    blocks[i] = hide(malloc(size));
    if (blocks[i] == nullptr) skip("no memory");
    memset(blocks[i], 1, size);
  }
  for (size_t i = 0; i < count; ++i) free(blocks[i]);
}

// The same, and checks that tarn's background thread then runs: without it the test would show nothing.
inline void free_megabytes_and_expect_thread() {
  free_megabytes();
  if (tarn_trim != nullptr && getenv("TARN_BACKGROUND") == nullptr) {
    TARN_CHECK(count_tasks() == 2, "%zu threads after 19 MiB were freed, not 2", count_tasks());
  }
}

}  // namespace guarantee
