// SPDX-License-Identifier: MIT
// What other allocators have for the purpose, under LD_PRELOAD: jemalloc's arenas (mallocx, arena.<i>.destroy), mimalloc's
// heaps (mi_heap_malloc, mi_heap_destroy), and tarn's scopes (malloc as it is). 100,000 blocks of 64 bytes, written; all
// freed or none; then the end. Prints medians of 21: the end in us, and what is resident 10 ms later above the state
// before. Both peers free blocks that are still in use; tarn keeps and reports them.
//
//     LD_PRELOAD=… scopes_peers
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "../system_probes.hpp"
#include "tarn/scope.h"

namespace {

constexpr std::size_t blocks = 100000;
constexpr std::size_t size = 64;

template <class F>
F* function(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

struct jemalloc {
  void* (*mallocx)(std::size_t, int) = function<void*(std::size_t, int)>("mallocx");
  void (*dallocx)(void*, int) = function<void(void*, int)>("dallocx");
  int (*mallctl)(const char*, void*, std::size_t*, void*, std::size_t) =
      function<int(const char*, void*, std::size_t*, void*, std::size_t)>("mallctl");
  unsigned arena = 0;
  int flags = 0;
  void begin() {
    std::size_t length = sizeof arena;
    mallctl("arenas.create", &arena, &length, nullptr, 0);
    flags = static_cast<int>((arena + 1) << 20) | 1 << 8;  // MALLOCX_ARENA, MALLOCX_TCACHE_NONE
  }
  void* allocate() const { return mallocx(size, flags); }
  void free(void* block) const { dallocx(block, flags); }
  void leave() {}
  void end() const {
    char name[64];
    std::snprintf(name, sizeof name, "arena.%u.destroy", arena);
    mallctl(name, nullptr, nullptr, nullptr, 0);
  }
};

struct mimalloc {
  void* (*heap_new)() = function<void*()>("mi_heap_new");
  void* (*heap_malloc)(void*, std::size_t) = function<void*(void*, std::size_t)>("mi_heap_malloc");
  void (*heap_destroy)(void*) = function<void(void*)>("mi_heap_destroy");
  void* heap = nullptr;
  void begin() { heap = heap_new(); }
  void* allocate() const { return heap_malloc(heap, size); }
  static void free(void* block) { std::free(block); }
  void leave() {}
  void end() const { heap_destroy(heap); }
};

struct tarn_scopes {
  tarn_scope (*begin_)(const char*, const tarn_scope_options*) =
      function<tarn_scope(const char*, const tarn_scope_options*)>("tarn_scope_begin");
  int (*enter_)(tarn_scope,
                tarn_scope_entry*) = function<int(tarn_scope, tarn_scope_entry*)>("tarn_scope_enter");
  void (*leave_)(tarn_scope_entry*) = function<void(tarn_scope_entry*)>("tarn_scope_leave");
  void (*end_)(tarn_scope,
               tarn_scope_report*) = function<void(tarn_scope, tarn_scope_report*)>("tarn_scope_end");
  tarn_scope scope{};
  tarn_scope_entry entry{};
  void begin() {
    scope = begin_("peers", nullptr);
    enter_(scope, &entry);
  }
  static void* allocate() { return std::malloc(size); }
  static void free(void* block) { std::free(block); }
  void leave() { leave_(&entry); }
  void end() const { end_(scope, nullptr); }
};

template <class Peer>
void measure(const char* name, Peer peer, bool frees, bool frees_after) {
  using clock = std::chrono::steady_clock;
  std::vector<double> ends;
  std::vector<double> batches;
  std::vector<std::size_t> left;
  std::vector<void*> all(blocks);
  for (int r = 0; r < 21; ++r) {
    const std::size_t before = system_probes::resident_set();
    const auto start = clock::now();
    peer.begin();
    for (void*& block : all) {
      block = peer.allocate();
      std::memset(block, 1, size);
    }
    if (frees) {
      for (void* const block : all) peer.free(block);
    }
    peer.leave();
    const auto begin = clock::now();
    peer.end();
    const auto end = clock::now();
    ends.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
    batches.push_back(std::chrono::duration<double, std::nano>(begin - start).count() / blocks);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::size_t now = system_probes::resident_set();
    left.push_back(now > before ? now - before : 0);
    if (frees_after) {
      for (void* const block : all) peer.free(block);
    }
  }
  std::sort(ends.begin(), ends.end());
  std::sort(left.begin(), left.end());
  std::sort(batches.begin(), batches.end());
  std::printf("%s, %s: end %.0f us, resident 10 ms later %zu KiB, allocating%s %.1f ns per block\n", name,
              frees ? "all blocks freed" : "no block freed", ends[10], left[10] / 1024,
              frees ? " and freeing" : "", batches[10]);
}

template <class Peer>
void measure_both(const char* name, bool keeps) {
  measure(name, Peer{}, true, false);
  measure(name, Peer{}, false, keeps);
}

}  // namespace

int main() {
  if (dlsym(RTLD_DEFAULT, "tarn_scope_begin") != nullptr) {
    measure_both<tarn_scopes>("tarn", true);
  } else if (dlsym(RTLD_DEFAULT, "mi_heap_new") != nullptr) {
    measure_both<mimalloc>("mimalloc", false);
  } else if (dlsym(RTLD_DEFAULT, "mallocx") != nullptr) {
    measure_both<jemalloc>("jemalloc", false);
  } else {
    std::printf("preload libtarn, libjemalloc or libmimalloc\n");
    return 77;
  }
}
