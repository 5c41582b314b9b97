// SPDX-License-Identifier: MIT
// checked_slots: what a checked pool knows of each slot: whether it is live, and whether it was filled when it was
// given back. Every operation of such a pool comes here, under the pool's lock: slow, and sure.
//
// Invariant: a live slot is not filled; a filled one holds `pattern` in every byte, or somebody wrote to a destroyed
// object.
#pragma once

#include "pool/pool_core.hpp"

namespace tarn {

struct checked_slots {
  // Words of 64 bits that a span's books take: free, live, filled.
  static constexpr std::size_t books = 3;
  static constexpr unsigned char pattern = 0xdb;

  // The slot is about to be handed out. Aborts if it was written to since it was given back.
  static void hand_out(pool_core& pool, void* object);
  // The object comes back. Aborts if it is not a live object of the pool (of any pool, if null); fills it. Returns the
  // pool.
  static pool_core& take_back(pool_core* pool, void* object);
  // Aborts likewise; changes nothing. `what` somebody is about to do with it: "destroy".
  static pool_core& check(pool_core* pool, const void* object, const char* what);
};

}  // namespace tarn
