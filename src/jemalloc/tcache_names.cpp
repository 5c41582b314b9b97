// SPDX-License-Identifier: MIT
// tcache.*: explicit caches. Each is a number; allocations that name it use the cache of the calling thread.
//
// Thread safety: any thread. The numbers of destroyed caches are given out again.
#include <atomic>
#include <bit>
#include <cstdint>

#include "jemalloc/tree.hpp"
#include "runtime/engine.hpp"

namespace tarn::jemalloc {
namespace {

// As many as the flags of mallocx have room for (12 bits, less the two values for "the thread's" and "none").
constexpr unsigned most_caches = 4094;
constexpr unsigned bits_per_word = 64;
constexpr unsigned words = (most_caches + bits_per_word - 1) / bits_per_word;

// A bit for each number in use. relaxed: a number carries no data.
constinit std::atomic<std::uint64_t> in_use[words]{};

// The next free number; most_caches: there is none.
unsigned take_number() {
  for (unsigned w = 0; w < words; ++w) {
    std::uint64_t word = in_use[w].load(std::memory_order_relaxed);
    while (word != ~std::uint64_t{0}) {
      const auto bit = static_cast<unsigned>(std::countr_one(word));
      if (w * bits_per_word + bit >= most_caches) return most_caches;
      if (in_use[w].compare_exchange_weak(word, word | std::uint64_t{1} << bit, std::memory_order_relaxed))
        return w * bits_per_word + bit;
    }
  }
  return most_caches;
}

bool is_in_use(unsigned number) {
  return number < most_caches &&
         (in_use[number / bits_per_word].load(std::memory_order_relaxed) >> (number % bits_per_word) & 1U) !=
             0;
}

int handle_create(const request& r) {
  if (const int refused = refuse_write(r)) return refused;
  if (const int wrong = require_room<unsigned>(r)) return wrong;
  const unsigned number = take_number();
  return number == most_caches ? EFAULT : give(r, number);
}

int take_existing(const request& r, unsigned& number) {
  if (const int refused = refuse_read(r)) return refused;
  if (const int wrong = require(r, number)) return wrong;
  return is_in_use(number) ? 0 : EFAULT;
}

int handle_flush(const request& r) {
  unsigned number = 0;
  if (const int wrong = take_existing(r, number)) return wrong;
  if (engine::local_cache != &engine::no_cache) engine::local_cache->flush_all();
  return 0;
}

int handle_destroy(const request& r) {
  unsigned number = 0;
  if (const int wrong = take_existing(r, number)) return wrong;
  in_use[number / bits_per_word].fetch_and(~(std::uint64_t{1} << (number % bits_per_word)),
                                           std::memory_order_relaxed);
  return 0;
}

constexpr node nodes[] = {leaf("create", handle_create), leaf("flush", handle_flush),
                          leaf("destroy", handle_destroy)};

}  // namespace

constexpr node_list tcache_names = list_of(nodes);

}  // namespace tarn::jemalloc
