// SPDX-License-Identifier: MIT
// Line 14: the heap works before any constructor (.preinit_array), in constructors, after main has returned (exit
// handlers, static destructors, destructor functions), and after pthread_exit in the main thread.

#include <string>
#include <vector>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr int last_destructor_ran = 43;
constexpr size_t block_count = 300;
struct early_blocks {
  void* blocks[block_count];
  bool done;
};
early_blocks before_constructors;
early_blocks in_constructor;
bool is_child = false;
bool tell_by_status = false;

size_t size_of(size_t index) { return index % 50 == 0 ? index * 5000 + 1 : index * 13 + 1; }

void allocate_all(early_blocks& early) {
  for (size_t i = 0; i < block_count; ++i) {
    void* block = i % 3 == 0   ? calloc(1, size_of(i))
                  : i % 3 == 1 ? realloc(malloc(5), size_of(i))
                               : malloc(size_of(i));
    TARN_CHECK(block != nullptr, "no block of %zu bytes before main", size_of(i));
    early.blocks[i] = block;
    stamp(block, i, 0, size_of(i));
  }
  for (size_t i = 0; i < block_count; i += 4) {
    free(early.blocks[i]);
    early.blocks[i] = nullptr;
  }
  early.done = true;
}

// Checks all blocks and frees one of every `step`.
void check_and_free(early_blocks& early, size_t step, const char* when) {
  TARN_CHECK(early.done, "%s: the blocks that should precede main were not allocated", when);
  for (size_t i = 0; i < block_count; ++i) {
    if (early.blocks[i] == nullptr) continue;
    TARN_CHECK(stamped(early.blocks[i], i, size_of(i)), "%s: block %zu, allocated before main, has changed",
               when, i);
    if (i % step != 0) continue;
    free(early.blocks[i]);
    early.blocks[i] = nullptr;
  }
}

void before_any_constructor(int, char**, char**) { allocate_all(before_constructors); }
[[gnu::section(".preinit_array"), gnu::used]] void (*const preinit_entry)(int, char**,
                                                                          char**) = before_any_constructor;

[[gnu::constructor(101)]] void first_constructor() { allocate_all(in_constructor); }

void use_heap() {
  std::vector<std::string> strings;
  for (size_t i = 0; i < 300; ++i) strings.emplace_back(i * 20, 'a');
  free(realloc(malloc(5 * mib), 20 * mib));
}

// Destructor functions of priority 101 run after all other destructors of the program.
[[gnu::destructor(101)]] void last_destructor() {
  if (!is_child) return;
  use_heap();
  check_and_free(before_constructors, 1, "last destructor");
  check_and_free(in_constructor, 1, "last destructor");
  if (tell_by_status) _exit(last_destructor_ran);  // otherwise the allocator's own destructor runs next
}

struct static_object {
  std::vector<std::string> content{100, std::string(100, 's')};
  ~static_object() {
    use_heap();
    if (is_child) check_and_free(before_constructors, 2, "static destructor");
  }
};
static_object object;

void at_exit() {
  use_heap();
  check_and_free(in_constructor, 2, "exit handler");
}

void* outlive_main(void* main_thread) {
  pthread_join(*static_cast<pthread_t*>(main_thread), nullptr);
  for (int i = 0; i < 200; ++i) use_heap();
  check_and_free(before_constructors, 3, "after pthread_exit of main");
  for (int i = 0; i < 8; ++i) {
    pthread_join(start_thread(
                     [](void*) -> void* {
                       use_heap();
                       return nullptr;
                     },
                     nullptr),
                 nullptr);
  }
  exit(0);
}

int be_the_child(const char* way) {
  is_child = true;
  tell_by_status = strstr(way, "to the end") == nullptr;
  atexit(at_exit);
  use_heap();
  check_and_free(before_constructors, 5, "main");
  check_and_free(in_constructor, 5, "main");
  if (strstr(way, "main thread exits") != nullptr) {
    static pthread_t main_thread = pthread_self();
    start_thread(outlive_main, &main_thread);
    pthread_exit(nullptr);
  }
  return 0;
}

void expect_status(const char* way, int status) {
  const child_result result = run_again(30, way);
  if (result.exited && result.code == status) return;
  if (!result.good()) expect_good(result, way);
  fail("%s: the last destructor did not run", way);
}

}  // namespace

int main(int count, char** arguments) {
  start();
  if (count > 1) return be_the_child(arguments[1]);
  for (int i = 0; i < 5; ++i) {
    expect_status("main returns", last_destructor_ran);
    expect_status("main thread exits", last_destructor_ran);
    expect_status("main returns, to the end", 0);
    expect_status("main thread exits, to the end", 0);
  }
  measured("%zu blocks from before any constructor, freed in main and at several moments after it",
           block_count);
  return holds;
}
