// SPDX-License-Identifier: MIT
// A program for the tests of `tarn profile`: one of its processes works against the others by way of the memory that all
// recorded processes share.
//
// Usage: hostile_session UID. The first process makes 20,000 allocations of 100 bytes, starts a child that takes the rights
// of UID, and waits for it. The child finds the session's mappings in its own memory (/proc/self/maps) and goes through
// what it may do: write every word, publish events without end, cut the files' length, make holes in them. Then the first
// process makes 20,000 allocations more from new threads, which take up rings as they are now. Ends with status 0; 1 where
// the child could take memory away or write what is not for it to write.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

struct mapping {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  bool writable = false;
};

std::vector<mapping> session_mappings() {
  std::vector<mapping> found;
  std::FILE* file = std::fopen("/proc/self/maps", "r");
  char line[512];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strstr(line, "tarn-session") == nullptr) continue;
    mapping one;
    char rights[5] = {};
    std::sscanf(line, "%zx-%zx %4s", &one.start, &one.end, rights);
    one.writable = rights[1] == 'w';
    found.push_back(one);
  }
  std::fclose(file);
  return found;
}

[[gnu::noinline]] void allocate(int count) {
  for (int index = 0; index < count; ++index) {
    void* volatile block = std::malloc(100);
    std::free(block);
  }
}

// The files themselves, by the names that the kernel gives to mappings.
bool cut_off(const mapping& one) {
  char path[96];
  std::snprintf(path, sizeof path, "/proc/self/map_files/%zx-%zx", one.start, one.end);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = ftruncate(file, 0) == 0;
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20);
  close(file);
  return done;
}

int work_against_others(uid_t user) {
  const std::vector<mapping> mappings = session_mappings();
  if (mappings.empty()) return 77;
  bool harmed = false;
  for (const mapping& one : mappings) harmed = cut_off(one) || harmed;  // while the rights last
  if (setresuid(user, user, user) != 0) return 77;
  for (const mapping& one : mappings) {
    if (!one.writable) {
      harmed =
          mprotect(reinterpret_cast<void*>(one.start), one.end - one.start, PROT_READ | PROT_WRITE) == 0 ||
          harmed;
      continue;
    }
    // What begins the state, where slots and rings are, word by word; then a word of every page, as all of it would take
    // a gigabyte of memory.
    auto* words = reinterpret_cast<volatile std::uint64_t*>(one.start);
    const std::size_t count = (one.end - one.start) / 8;
    const std::uint64_t patterns[] = {~std::uint64_t{0}, 0x4141414141414141, 2, 0, 0x7fffffffffffffff};
    for (const std::uint64_t pattern : patterns) {
      const std::size_t whole = std::size_t{4} << 20;
      for (std::size_t index = 0; index < count && index < whole / 8; ++index) words[index] = pattern;
      for (std::size_t index = 0; index < count; index += 4096 * 8) words[index] = pattern;
      usleep(20000);
    }
    std::uint64_t random = 1;
    for (int round = 0; round < 300000; ++round) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      words[(random >> 33) % ((std::size_t{4} << 20) / 8)] = random >> (round % 60);
    }
  }
  return harmed ? 1 : 0;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return 2;
  allocate(20000);
  usleep(500000);  // what has been told so far is with the collector
  const pid_t child = fork();
  if (child == 0) _exit(work_against_others(static_cast<uid_t>(std::atoi(words[1]))));
  std::thread beside([] {
    for (int round = 0; round < 20; ++round) {
      allocate(2000);
      usleep(10000);
    }
  });
  int status = 0;
  waitpid(child, &status, 0);
  beside.join();
  for (int round = 0; round < 4; ++round) std::thread([] { allocate(5000); }).join();
  std::printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
