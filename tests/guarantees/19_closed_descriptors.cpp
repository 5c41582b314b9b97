// SPDX-License-Identifier: MIT
// Line 19: in a process started with descriptors 0 to 2 closed, the allocator leaves no descriptor open and writes to
// none: neither while they are closed, nor into files of the program that get these numbers later.
#include <errno.h>
#include <malloc.h>
#include <sys/stat.h>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr int highest_descriptor = 1024;
constexpr int left_open = 50;
constexpr int not_lowest = 51;
constexpr int allocation_failed = 52;

void* churn(void*) {
  random_numbers random(19);
  for (int i = 0; i < 20'000; ++i) {
    void* const block = malloc(i % 300 == 0 ? random.below(16 * mib) + 1 : random.below(4000) + 1);
    if (block == nullptr) _exit(allocation_failed);
    *static_cast<char*>(block) = 1;
    free(block);
  }
  return nullptr;
}

// Everything for which an allocator may read a file or print a message: first use, threads, huge and impossible
// requests, exhaustion, trim, options.
void exercise() {
  churn(nullptr);
  pthread_t threads[3];
  for (pthread_t& thread : threads) {
    if (pthread_create(&thread, nullptr, churn, nullptr) != 0) _exit(not_checkable);
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  free(malloc(3 * gib));
  free(malloc(static_cast<size_t>(PTRDIFF_MAX) - 100));
  free(memalign(4 * mib, 8 * mib));
  rlimit old_limit{};
  getrlimit(RLIMIT_AS, &old_limit);
  rlimit tight = old_limit;
  tight.rlim_cur = 512 * mib;
  setrlimit(RLIMIT_AS, &tight);
  free(malloc(gib));
  setrlimit(RLIMIT_AS, &old_limit);
  mallopt(M_MMAP_THRESHOLD, 128 * 1024);
  malloc_trim(0);
}

// Whether no descriptor from `expected` up is open.
bool only_open(int expected) {
  for (int i = expected; i < highest_descriptor; ++i) {
    if (fcntl(i, F_GETFD) != -1 || errno != EBADF) return false;
  }
  return true;
}

// Runs with no descriptor open. Opens the three files `paths` as descriptors 0 to 2. Returns the exit status, which is
// all that it can report.
int with_none_open(char** paths) {
  if (!only_open(0)) return left_open;
  exercise();
  if (!only_open(0)) return left_open;
  for (int i = 0; i < 3; ++i) {
    const int file = open(paths[i], O_RDWR);
    if (file < 0) return not_checkable;
    if (file != i) return not_lowest;
  }
  exercise();
  return only_open(3) ? holds : left_open;
}

int start_with_none_open(const int (&files)[3]) {
  char paths[3][64];
  for (int i = 0; i < 3; ++i) snprintf(paths[i], sizeof paths[i], "/proc/%d/fd/%d", getppid(), files[i]);
  for (int i = 0; i < highest_descriptor; ++i) close(i);
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return not_checkable;
  path[length] = '\0';
  execl(path, path, paths[0], paths[1], paths[2], static_cast<char*>(nullptr));
  return not_checkable;
}

void check() {
  // The files belong to this process, which looks at them after the other one has ended.
  int files[3];
  for (int& file : files) {
    file = static_cast<int>(memfd_create("guarantee", MFD_CLOEXEC));
    if (file < 0) skip("memfd_create fails: %s", strerror(errno));
  }
  const child_result result = run_in_child(60, [&files] { return start_with_none_open(files); });
  if (result.exited && result.code == left_open) fail("a descriptor is left open");
  if (result.exited && result.code == not_lowest) fail("a descriptor below 3 is in use");
  if (result.exited && result.code == allocation_failed) fail("malloc fails with descriptors 0 to 2 closed");
  expect_good(result, "descriptors 0 to 2 closed");
  for (const int file : files) {
    struct stat status {};
    TARN_CHECK(fstat(file, &status) == 0 && status.st_size == 0,
               "something is written to descriptors 0 to 2");
    close(file);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 4) return with_none_open(arguments + 1);
  start();
  check();
  // With TARN_STATS=stderr tarn duplicates descriptor 2 at the start, for the statistics that it prints at exit.
  setenv("TARN_STATS", "stderr", 1);
  check();
  measured("no descriptor left open or written to, of %d looked at", highest_descriptor);
  return holds;
}
