// SPDX-License-Identifier: MIT
// A program whose allocations are known; the tests of `tarn profile` compare profiles with them. The first argument
// says what it does, the second how often. Every function that allocates is a site of its own. Exit status: 7.
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <thread>
#include <vector>

#define SITE [[gnu::noinline]]

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

SITE void keep(void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

// ---- a fragmented heap ----

// At the same site twice, so that no site is that of one call only.
SITE void* pin_dense(std::size_t size) { return std::calloc(1, size); }
SITE void* pin_culprit(std::size_t size) { return std::calloc(1, size); }
SITE void* pin_bystander(std::size_t size) { return std::calloc(1, size); }
SITE void* pin_passing(std::size_t size) { return std::calloc(1, size); }

long resident_bytes() {
  long size = 0;
  long resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr || std::fscanf(file, "%ld %ld", &size, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}

// 4 MiB of blocks that live on in one piece; then short-lived blocks of random sizes, among which one in about 150 lives
// on, and one in about 3,000 of another site. Prints by how much the resident memory has grown, and the live bytes.
void pinned(std::uint32_t seed) {
  std::uint32_t state = seed * 2654435761U + 1;
  const auto below = [&state](std::uint32_t n) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % n;
  };
  const long before = resident_bytes();
  std::size_t live = 0;
  std::vector<void*> passing;
  passing.reserve(250'000);
  live += 250'000 * sizeof(void*);
  for (int i = 0; i < 40'000; ++i, live += 100) keep(pin_dense(100));
  const std::size_t least = 16 + 16 * below(4);
  for (int i = 0; i < 200'000; ++i) {
    passing.push_back(pin_passing(least + below(400)));
    const std::uint32_t dice = below(3000);
    const std::size_t size = least + below(400);
    if (dice < 20) {
      keep(pin_culprit(size));
      live += size;
    } else if (dice == 20) {
      keep(pin_bystander(size));
      live += size;
    }
  }
  for (void* const block : passing) std::free(block);
  std::printf("%ld %zu\n", resident_bytes() - before, live);
}

SITE void touch_all() {
  char* block = static_cast<char*>(std::malloc(33 * mib));
  std::memset(block, 1, 33 * mib);
  keep(block);
  std::free(block);
}

SITE void touch_tenth() {
  char* block = static_cast<char*>(std::malloc(40 * mib));
  std::memset(block, 1, 4 * mib);
  keep(block);
  std::free(block);
}

SITE void touch_none() {
  void* block = std::malloc(40 * mib);
  keep(block);
  std::free(block);
}

SITE void fill_by_read() {
  const int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  void* block = std::malloc(35 * mib);
  if (read(file, block, 35 * mib) != static_cast<ssize_t>(35 * mib)) std::abort();
  keep(block);
  std::free(block);
  close(file);
}

SITE void calloc_read() {
  char* block = static_cast<char*>(std::calloc(36, mib));
  keep(block);
  long sum = 0;
  for (std::size_t at = 0; at < 36 * mib; at += 10 * 4096) sum += static_cast<volatile char*>(block)[at];
  if (sum != 0) std::abort();
  std::free(block);
}

SITE void small_blocks(std::size_t count) {
  std::vector<void*> blocks;
  blocks.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    blocks.push_back(std::malloc(64));
    std::memset(blocks.back(), 1, 64);
  }
  for (void* block : blocks) std::free(block);
}

SITE void grow_vector() {
  std::vector<int> values;
  for (int value = 0; value < 10000; ++value) values.push_back(value);
  keep(values.data());
}

SITE void leak() { keep(std::malloc(1000)); }

SITE void grow_in_steps() {
  void* block = nullptr;
  for (std::size_t step = 1; step <= 100; ++step) {
    block = std::realloc(block, step * 100);
    keep(block);
  }
  std::free(block);
}

SITE void every_entry() {
  void* block = nullptr;
  std::free(std::calloc(3, 5));
  if (posix_memalign(&block, 64, 100) == 0) std::free(block);
  std::free(std::aligned_alloc(128, 256));
  std::free(memalign(32, 90));
  std::free(valloc(10));
  std::free(pvalloc(10));
  std::free(reallocarray(nullptr, 4, 25));
  // keep() between new and delete: otherwise the compiler may remove both.
  const auto kept = [](auto* made) {
    keep(made);
    return made;
  };
  delete kept(new (std::nothrow) char);
  delete[] kept(new char[10]);
  struct alignas(64) wide {
    char bytes[64];
  };
  delete kept(new wide);
  delete[] kept(new wide[2]);
  delete kept(new int);
}

void churn(std::size_t count) {
  for (std::size_t index = 0; index < count; ++index) {
    void* block = std::malloc(16 + index % 256);
    keep(block);
    std::free(block);
  }
}

void exact(std::size_t times) {
  for (std::size_t round = 0; round < times; ++round) {
    touch_all();
    touch_tenth();
    touch_none();
    fill_by_read();
    calloc_read();
    grow_vector();
    leak();
  }
  small_blocks(20000 * times);
  grow_in_steps();
}

void threads(std::size_t count) {
  std::vector<std::thread> all;
  for (std::size_t index = 0; index < count; ++index) {
    all.emplace_back([] {
      pthread_setname_np(pthread_self(), "worker");
      churn(5000);
      leak();
    });
  }
  for (std::thread& one : all) one.join();
}

void small_stack() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 16384);
  pthread_t thread = {};
  const auto run = [](void*) -> void* {
    churn(1000);
    return nullptr;
  };
  if (pthread_create(&thread, &attributes, run, nullptr) != 0) std::abort();
  pthread_join(thread, nullptr);
}

// Each block is allocated in one thread and freed in another.
void hand_over(std::size_t count) {
  std::vector<void*> blocks(count);
  std::thread producer([&] {
    for (void*& block : blocks) block = std::malloc(48);
  });
  producer.join();
  for (void* block : blocks) std::free(block);
}

void children(std::size_t count, bool together) {
  std::vector<pid_t> all;
  for (std::size_t index = 0; index < count; ++index) {
    const pid_t child = fork();
    if (child == 0) {
      for (int step = 0; step < 10; ++step) leak();
      churn(50);
      if (together) usleep(300000);
      _exit(0);
    }
    if (together) {
      all.push_back(child);
    } else {
      waitpid(child, nullptr, 0);
    }
  }
  for (const pid_t child : all) waitpid(child, nullptr, 0);
}

void large_child() {
  const pid_t child = fork();
  if (child == 0) {
    churn(30000);
    _exit(0);
  }
  churn(100);
  waitpid(child, nullptr, 0);
}

void in_handlers(std::size_t count) {
  std::signal(SIGALRM, [](int) { churn(3); });
  ualarm(200, 200);
  churn(count);
  ualarm(0, 0);
}

void own_mappings() {
  void* memory = mmap(nullptr, 8 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(memory, 1, 4 * mib);
  munmap(memory, 8 * mib);
}

SITE std::size_t deep(std::size_t depth) {
  if (depth == 0) {
    leak();
    return 1;
  }
  const std::size_t result = deep(depth - 1) + 1;
  asm volatile("" : : : "memory");
  return result;
}

// Resident memory of each kind, of known size. All of it exists together for 0.4 s.
char static_data[6 * mib];

SITE void* split_large() {
  char* block = static_cast<char*>(std::malloc(40 * mib));
  std::memset(block, 1, 20 * mib);
  return block;
}

SITE void split_small(std::vector<void*>& blocks) {
  for (std::size_t index = 0; index < 16 * mib / 1024; ++index) {
    blocks.push_back(std::malloc(1024));
    std::memset(blocks.back(), 1, 1024);
  }
  for (std::size_t index = 0; index < blocks.size(); index += 2) std::free(blocks[index]);
}

SITE void split_mapped() {
  void* memory = mmap(nullptr, 24 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(memory, 1, 8 * mib);
}

SITE void split_stack() {
  char frame[3 * mib];
  std::memset(frame, 1, sizeof frame);
  keep(frame);
  keep(std::malloc(10));
  usleep(400000);
}

SITE void parts() {
  std::memset(static_data, 1, sizeof static_data);
  keep(static_data);
  std::vector<void*> blocks;
  keep(split_large());
  split_small(blocks);
  split_mapped();
  std::thread(split_stack).join();
}

// Allocates a large block for a few milliseconds, and prints the kernel's figure of the highest resident memory, in
// KiB.
SITE void spike() {
  usleep(105000);
  char* block = static_cast<char*>(std::malloc(200 * mib));
  for (std::size_t at = 0; at < 200 * mib; at += 4096) block[at] = 1;
  std::free(block);
  usleep(105000);
  char line[256];
  std::FILE* status = std::fopen("/proc/self/status", "r");
  unsigned long kib = 0;
  while (std::fgets(line, sizeof line, status) != nullptr) std::sscanf(line, "VmHWM: %lu", &kib);
  std::fclose(status);
  std::printf("%lu\n", kib);
}

}  // namespace

int main(int word_count, char** words) {
  if (word_count < 2) return 2;
  const std::string_view what = words[1];
  const std::size_t count = word_count > 2 ? std::strtoul(words[2], nullptr, 10) : 1;
  if (what == "exact") exact(count);
  if (what == "spike") spike();
  if (what == "parts") parts();
  if (what == "pinned") pinned(static_cast<std::uint32_t>(count));
  if (what == "entries") every_entry();
  if (what == "churn") churn(count);
  if (what == "threads") threads(count);
  if (what == "chain") {
    for (std::size_t index = 0; index < count; ++index) std::thread([] { churn(10); }).join();
  }
  if (what == "small-stack") small_stack();
  if (what == "hand-over") hand_over(count);
  if (what == "children") children(count, false);
  if (what == "children-together") children(count, true);
  if (what == "large-child") large_child();
  if (what == "handlers") in_handlers(count);
  if (what == "mappings") own_mappings();
  if (what == "deep") keep(reinterpret_cast<void*>(deep(count)));
  if (what == "crash" || what == "kill") {
    for (std::size_t index = 0; index < count; ++index) leak();
    raise(what == "kill" ? SIGKILL : SIGSEGV);
  }
  if (what == "wait") {
    churn(1000);
    std::puts("waiting");
    std::fflush(stdout);
    pause();
  }
  std::puts("end");
  return 7;
}
