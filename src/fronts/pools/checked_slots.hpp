// SPDX-License-Identifier: MIT
// checked_slots: the records that a checked pool keeps of each slot: whether it is live, and whether it was filled
// with a pattern when it was freed. Every allocation and deallocation of such a pool calls these functions, which take
// the lock of the pool's only shard.
//
// Thread safety: any thread. Invariant: a live slot is not filled; a filled one holds `pattern` in every byte, unless
// the program has written to a destroyed object.
#pragma once

#include "fronts/pools/pool_core.hpp"

namespace tarn {

struct checked_slots {
  static constexpr unsigned char pattern = 0xdb;

  // Marks a slot live that is about to be handed out. Aborts if it was written to since it was freed.
  static void hand_out(tarn_pool& pool, void* object);
  // Marks an object free and fills its slot. Aborts if it is not a live object of the pool (of any pool, if null).
  // Returns the pool.
  static tarn_pool& take_back(tarn_pool* pool, void* object);
  // Aborts unless the object is a live one of the pool (of any pool, if null); returns its pool. `what` names the
  // attempted operation in the message, such as "destroy".
  static tarn_pool& check(tarn_pool* pool, const void* object, const char* what);

  // Checks the records of a span of the pool: no live slot is filled. Called under the lock.
  static void validate_locked(const tarn_pool& pool, const span* s);
};

}  // namespace tarn
