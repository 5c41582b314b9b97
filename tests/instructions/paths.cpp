// SPDX-License-Identifier: MIT
// paths: runs each hot and slow path of the library a known number of times, for check_counts.py, which counts the
// instructions under callgrind. A path is one function that is not inlined; main prints its name and how many
// operations its calls performed. The counts include the loop around the path: two or three instructions.
// Linked with libtarn.so; one thread.
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "tarn/arena.hpp"
#include "tarn/buffer_pool.hpp"
#include "tarn/pool.hpp"
#include "tarn/pooled.hpp"
#include "tarn/recycler.hpp"

// Not final, and without a virtual destructor: delete asks whether there was a larger object. (Not in the unnamed namespace,
// where Clang sees that there was none.)
struct order : tarn::pooled<order> {
  unsigned long words[8];
};

namespace {

constexpr std::size_t many = 1000;

struct object {
  unsigned long words[8];
};

// The compiler must assume that the memory is used.
void keep(void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

using path = void (*)(std::size_t operations);

void* blocks[many];

template <std::size_t Bytes>
void pairs(std::size_t operations) {
  for (std::size_t i = 0; i < operations; ++i) {
    void* const block = std::malloc(Bytes);
    keep(block);
    std::free(block);
  }
}

// Allocates a thousand blocks, then frees them: includes refills and flushes.
template <std::size_t Bytes>
void batches(std::size_t operations) {
  for (std::size_t done = 0; done < operations; done += many) {
    for (void*& block : blocks) keep(block = std::malloc(Bytes));
    for (void* const block : blocks) std::free(block);
  }
}

void zeroed_pairs(std::size_t operations) {
  for (std::size_t i = 0; i < operations; ++i) {
    void* const block = std::calloc(1, 64);
    keep(block);
    std::free(block);
  }
}

void aligned_pairs(std::size_t operations) {
  for (std::size_t i = 0; i < operations; ++i) {
    void* const block = std::aligned_alloc(64, 192);
    keep(block);
    std::free(block);
  }
}

void aligned_page_pairs(std::size_t operations) {
  for (std::size_t i = 0; i < operations; ++i) {
    void* const block = std::aligned_alloc(4096, 4096);
    keep(block);
    std::free(block);
  }
}

// As batches(), of blocks that wait for the next batch.
void large_batches(std::size_t operations) {
  constexpr std::size_t few = 20;
  for (std::size_t done = 0; done < operations; done += few) {
    for (std::size_t i = 0; i < few; ++i) keep(blocks[i] = std::malloc(std::size_t{1} << 20));
    for (std::size_t i = 0; i < few; ++i) std::free(blocks[i]);
  }
}

template <class T>
void new_delete_pairs(std::size_t operations) {
  for (std::size_t i = 0; i < operations; ++i) {
    auto* const one = new T;
    keep(one);
    delete one;
  }
}

void realloc_in_place(std::size_t operations) {
  void* block = std::malloc(64);
  for (std::size_t i = 0; i < operations; ++i) keep(block = std::realloc(block, 60 + i % 4));
  std::free(block);
}

template <class Pool>
void pool_pairs(const Pool& pool, std::size_t operations) {
  for (std::size_t i = 0; i < operations; ++i) {
    auto* const one = pool.create();
    keep(one);
    pool.destroy(one);
  }
}

void shared_pool_pairs(std::size_t operations) { pool_pairs(tarn::pool_of<object>(), operations); }

void own_pool_pairs(std::size_t operations) {
  static tarn::object_pool<object> pool;
  pool_pairs(pool, operations);
}

void local_pool_pairs(std::size_t operations) {
  static tarn::local_pool<object> pool;
  pool_pairs(pool, operations);
}

void recycler_pairs(std::size_t operations) {
  static tarn::recycler<object> pool;
  for (std::size_t i = 0; i < operations; ++i) keep(pool.get().get());
}

void buffer_pairs(std::size_t operations) {
  static tarn::buffer_pool pool;
  for (std::size_t i = 0; i < operations; ++i) keep(pool.get(std::size_t{1} << 20).data());
}

void arena_objects(std::size_t operations) {
  tarn::arena arena;
  for (std::size_t i = 0; i < operations; ++i) {
    keep(arena.create<object>());
    if (i % many == many - 1) arena.reset();
  }
}

struct named_path {
  const char* name;
  path run;
};
constexpr named_path paths[] = {
    {"malloc(64), free", pairs<64>},
    {"malloc(1000), free", pairs<1000>},
    {"malloc(20000), free", pairs<20000>},
    {"malloc(400000), free", pairs<400000>},
    {"1000 x malloc(64), 1000 x free", batches<64>},
    {"1000 x malloc(5000), 1000 x free", batches<5000>},
    {"20 x malloc(1 MiB), 20 x free", large_batches},
    {"calloc(64), free", zeroed_pairs},
    {"aligned_alloc(64, 192), free", aligned_pairs},
    {"aligned_alloc(4096, 4096), free", aligned_page_pairs},
    {"new, delete", new_delete_pairs<object>},
    {"realloc in place", realloc_in_place},
    {"pool_of: create, destroy", shared_pool_pairs},
    {"pooled: new, delete", new_delete_pairs<order>},
    {"object_pool: create, destroy", own_pool_pairs},
    {"local_pool: create, destroy", local_pool_pairs},
    {"recycler: get, release", recycler_pairs},
    {"buffer_pool: get, release", buffer_pairs},
    {"arena: create", arena_objects},
};

// Callgrind reports the costs of this function's calls separately for each number.
template <std::size_t Number>
[[gnu::noinline]] void measured(std::size_t operations) {
  paths[Number].run(operations);
  asm volatile("");  // no tail call
}

template <std::size_t... Numbers>
void measure_all(std::index_sequence<Numbers...> /*numbers*/) {
  constexpr std::size_t operations = 20 * many;
  (paths[Numbers].run(2 * many), ...);
  ((std::printf("%zu\t%zu\t%s\n", Numbers, operations, paths[Numbers].name), measured<Numbers>(operations)),
   ...);
}

}  // namespace

int main() { measure_all(std::make_index_sequence<std::size(paths)>()); }
