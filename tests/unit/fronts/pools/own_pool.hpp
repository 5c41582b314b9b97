// SPDX-License-Identifier: MIT
// own_pool: a pool outside of the registry, so that a test knows every slot of it.
//
// Thread safety: that of the pool. Invariant: at the end no slot is taken, and all spans can be given back.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/chain.hpp"
#include "engine/engine.hpp"
#include "fronts/pools/pool_core.hpp"
#include "fronts/pools/pool_magazine.hpp"

namespace tarn {

class pool_core_test_access {
 public:
  static std::atomic<std::size_t>& bytes(pool_core& pool) { return pool.bytes_; }
  static void destroy(pool_core& pool, span* s) { pool.destroy_span(s, page_backing::young); }
};

class pool_shard_test_access {
 public:
  static span*& carving(pool_shard& shard) { return shard.carving_; }

  // The idle slots of a span of the shard, held between the two steps of pool_shard::purge_idle_pages().
  struct idle_slots : pool_shard::idle_front {
    explicit idle_slots(pool_shard& shard) : idle_front{shard.pool(), slots, 1} {
      shard.drop_idle_pages(*this, slots, 0, SIZE_MAX);
    }
    void drop() { seen = most; }

    std::vector<std::uint64_t> bits =
        std::vector<std::uint64_t>(objects::words(slot_layout::most_objects_huge));
    held_slots slots{pool.layout().size, bits.data()};
  };
};

namespace testing_support {

inline tarn_pool_options request_of(std::size_t size, unsigned shards = 1) {
  tarn_pool_options request = TARN_POOL_OPTIONS;
  request.object_size = size;
  request.alignment = 4;
  request.name = "";
  request.shards = shards;
  return request;
}

struct own_pool {
  using slots = std::vector<void*>;
  using source = pool_shard::source;

  explicit own_pool(const tarn_pool_options& request)
      : owner(std::make_unique<tarn_pool>(request, name.c_str())), pool(*owner) {
    engine::attach_thread();
  }
  explicit own_pool(std::size_t size, unsigned shards = 1) : own_pool(request_of(size, shards)) {}
  own_pool(const own_pool&) = delete;
  own_pool& operator=(const own_pool&) = delete;
  ~own_pool() {
    pool.trim();
    pool.validate();
    EXPECT_EQ(pool.taken(), 0U);
    EXPECT_EQ(pool.release_everything(), 0U);
    pool.free_shards();
  }

  // At most `most` slots of the shard, in the order in which a bin would hand them out.
  slots take(pool_shard& shard, std::size_t most, source from) {
    return filled(
        most, [&](magazine* m) { return shard.take(m, most, from); }, most);
  }
  // The same of the pool, which may add spans; fewer than `most` where there is no memory.
  slots get(pool_shard& shard, std::size_t most) {
    slots all;
    while (all.size() < most) {
      const std::size_t missing = std::min(most - all.size(), largest_magazine);
      const slots some = filled(
          missing, [&](magazine* m) { return pool.refill(shard, m, missing); }, 0);
      if (some.empty()) break;
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
  void give(const slots& taken) {
    for (std::size_t i = 0; i < taken.size(); i += largest_magazine)
      pool.flush(taken.data() + i, std::min(largest_magazine, taken.size() - i));
  }
  // All slots that the shard can hand out without another span.
  slots take_all(pool_shard& shard) {
    slots all;
    for (const source from : {source::used, source::fresh}) {
      for (slots some; !(some = take(shard, largest_magazine, from)).empty();)
        all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

  // Another one for each pool: the hardened build gives the spans of a name to the next pool of that name.
  const std::string name = "own pool " + std::to_string(++pools);
  const std::unique_ptr<tarn_pool> owner;
  tarn_pool& pool;

 private:
  static inline int pools = 0;

  // fill(m) returns how many slots it has put into m: up to place `end`, or from the bottom on if `end` is 0.
  template <class Fill>
  slots filled(std::size_t most, Fill fill, std::size_t end) {
    magazine* all = pool_magazine::allocate_some(most);
    magazine* const m = chain::pop(all);
    while (magazine* const other = chain::pop(all)) pool_magazine::deallocate(other);
    const std::size_t found = fill(m);
    slots out;
    for (std::size_t i = end != 0 ? end : found, left = found; left != 0; --i, --left)
      out.push_back(m->slots[i]);
    pool_magazine::deallocate(m);
    return out;
  }
};

}  // namespace testing_support
}  // namespace tarn
