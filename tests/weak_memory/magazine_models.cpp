// SPDX-License-Identifier: MIT
// The ways of a magazine between its cache, the cache's spare place, the depot and the pool of magazines. Used by one
// thread.
#include "protocol.hpp"

namespace weak {
namespace {

// spare_magazine of src/slots/magazine_bin.hpp, and the load of a depot's full_count without the lock
// (src/slots/central.cpp). Only the cache's thread puts a magazine into the spare place, and only after it has taken
// the one that may be there. A taker may be late: between its load and its exchange the magazine may have been emptied
// into the pool, and be in the place again with other objects. Two magazines: 1 is loaded at first, 2 is the spare one.
// Their contents, the depot and the pool are plain variables. At the end each magazine is in one place.
enum : unsigned { spare, full_count, lock, places };
enum : unsigned { depot = 4, plains = 6 };  // of two magazines
constexpr int magazine_count = 2;
unsigned content(int magazine) { return static_cast<unsigned>(magazine - 1); }
unsigned pooled(int magazine) { return static_cast<unsigned>(magazine + 1); }

int take(thread& t) {
  if (t.load(spare, order::relaxed) == 0) return 0;
  return t.exchange(spare, 0, order::acquire);
}

void put_into_pool(thread& t, int magazine) {
  t.lock(lock);
  t.write(pooled(magazine), 1);
  t.unlock(lock);
}

void flush(thread& t, int magazine) {
  t.check(t.read(content(magazine)) != 0, "the magazine is empty already");
  t.write(content(magazine), 0);
}

void give_back(thread& t, int magazine) {
  if (without("flush first")) {
    put_into_pool(t, magazine);
    return flush(t, magazine);
  }
  flush(t, magazine);
  put_into_pool(t, magazine);
}

// The depot's limit is 1.
void hand_over(thread& t, int magazine) {
  if (t.load(full_count, order::relaxed) >= 1) return give_back(t, magazine);
  if (!without("lock of push")) t.lock(lock);
  const int count = t.load(full_count, order::relaxed);
  t.write(depot + static_cast<unsigned>(count), magazine);
  t.store(full_count, count + 1, order::relaxed);
  if (!without("lock of push")) t.unlock(lock);
}

void flush_full_one(thread& t) {
  if (t.load(full_count, order::relaxed) == 0) return;
  t.lock(lock);
  const int count = t.load(full_count, order::relaxed);
  t.check(count != 0 || !without("look under the lock"), "the depot is empty");
  const int magazine = count == 0 ? 0 : t.read(depot + static_cast<unsigned>(count - 1));
  if (count != 0) t.store(full_count, count - 1, order::relaxed);
  t.unlock(lock);
  if (magazine != 0) give_back(t, magazine);
}

// make_room(): puts away the full magazine that is loaded.
void put_away(thread& t, int magazine) {
  const int before = without("take before put") ? 0 : take(t);
  if (before != 0) hand_over(t, before);
  t.store(spare, magazine, order::release);
}

void owner(thread& t) {
  put_away(t, 1);
  t.lock(lock);
  const bool found = t.read(pooled(2)) != 0;
  if (found) t.write(pooled(2), 0);
  t.unlock(lock);
  if (!found) return;
  t.write(content(2), 3);  // other objects
  put_away(t, 2);
}

// decay, and `reclaim` of another thread.
void taker(thread& t) {
  if (without("take before reading")) {
    const int seen = t.load(spare, order::relaxed);
    if (seen != 0) t.read(content(seen));
  }
  const int magazine = take(t);
  if (magazine == 0) return flush_full_one(t);
  if (without("only the owner puts")) {
    flush(t, magazine);
    t.store(spare, magazine, order::release);
  } else {
    give_back(t, magazine);
  }
}

const char* each_is_somewhere(const machine& m) {
  for (int magazine = 1; magazine <= magazine_count; ++magazine) {
    int found = (m.last(spare) == magazine ? 1 : 0) + m.plain_value(pooled(magazine));
    for (int i = 0; i < m.last(full_count); ++i)
      found += m.plain_value(depot + static_cast<unsigned>(i)) == magazine ? 1 : 0;
    if (found != 1) return found == 0 ? "a magazine is lost" : "a magazine is in two places";
  }
  return nullptr;
}

model ways() {
  return {places, plains, {owner, taker, flush_full_one}, each_is_somewhere, [](machine& m) {
            m.set_initial(spare, 2);
            m.set_initial_plain(content(1), 1);
            m.set_initial_plain(content(2), 2);
          }};
}
const registered protocol("handover.magazine_ways",
                          {"flush first", "lock of push", "look under the lock", "take before put",
                           "take before reading", "only the owner puts"},
                          ways);

}  // namespace
}  // namespace weak
