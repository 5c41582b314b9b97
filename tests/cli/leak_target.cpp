// SPDX-License-Identifier: MIT
// A program with known leaks, which its first argument chooses. `tarn show --by leaks` and LeakSanitizer must both find them.
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#define SITE [[gnu::noinline]]

namespace {

struct node {
  node* next;
  char rest[92];
};

node* kept_list = nullptr;
char* kept_middle = nullptr;
thread_local void* of_thread = nullptr;
pthread_barrier_t both;

SITE void keep(void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

// Overwrites the stack below the caller, so that no address of a block stays in the frames of earlier calls.
SITE void scrub() {
  char frames[32768];
  std::memset(frames, 0, sizeof frames);
  keep(frames);
}

SITE node* make_node(node* next) {
  node* made = static_cast<node*>(std::malloc(sizeof(node)));
  std::memset(made, 0, sizeof *made);
  made->next = next;
  return made;
}

SITE void lose_blocks() {
  for (int index = 0; index < 10; ++index) keep(std::malloc(1000));
}

SITE void lose_chain() {
  node* chain = nullptr;
  for (int index = 0; index < 6; ++index) chain = make_node(chain);
  keep(chain);
}

SITE void lose_ring() {
  node* first = make_node(nullptr);
  first->next = make_node(make_node(first));
  keep(first);
}

SITE void keep_all() {
  for (int index = 0; index < 20; ++index) kept_list = make_node(kept_list);
  kept_middle = static_cast<char*>(std::malloc(500)) + 250;
  keep(&kept_list);
  keep(&kept_middle);
}

SITE void* lose_with_thread(void* /*unused*/) {
  for (int index = 0; index < 7; ++index) {
    of_thread = std::malloc(300);
    keep(&of_thread);
  }
  return nullptr;
}

SITE void* hold_on_stack(void* /*unused*/) {
  void* volatile held = std::malloc(400);
  keep(held);
  pthread_barrier_wait(&both);
  for (;;) pause();
  keep(held);
}

SITE void threads() {
  pthread_t thread{};
  pthread_create(&thread, nullptr, lose_with_thread, nullptr);
  pthread_join(thread, nullptr);
  of_thread = std::malloc(200);
  keep(&of_thread);
  pthread_barrier_init(&both, nullptr, 2);
  pthread_create(&thread, nullptr, hold_on_stack, nullptr);
  pthread_barrier_wait(&both);
}

SITE void* end_at_once(void* /*unused*/) {
  of_thread = nullptr;
  pthread_barrier_wait(&both);
  return nullptr;
}

// Detached threads: their stacks, and the dynamic linker's memory for them, stay allocated and are no leaks.
SITE void detached() {
  constexpr unsigned count = 8;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_barrier_init(&both, nullptr, count + 1);
  pthread_t thread{};
  for (unsigned index = 0; index < count; ++index) pthread_create(&thread, &attributes, end_at_once, nullptr);
  pthread_barrier_wait(&both);
  usleep(50000);
}

SITE void free_all() {
  node* chain = nullptr;
  for (int index = 0; index < 50; ++index) chain = make_node(chain);
  while (chain != nullptr) {
    node* next = chain->next;
    std::free(chain);
    chain = next;
  }
}

}  // namespace

int main(int word_count, char** words) {
  const std::string_view what = word_count > 1 ? words[1] : "";
  if (what == "lost") lose_blocks();
  if (what == "indirect") {
    lose_chain();
    scrub();
    lose_ring();
  }
  if (what == "reachable") keep_all();
  if (what == "threads") threads();
  if (what == "detached") detached();
  if (what == "freed") free_all();
  scrub();
  return 0;
}
