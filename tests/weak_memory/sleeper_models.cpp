// SPDX-License-Identifier: MIT
// How the background thread (the taker) empties the loaded magazine of a sleeping thread (the owner), which may wake at
// any moment (src/threads/thread_cache_idle.cpp), under the memory model of C++ and so of aarch64: other threads may see
// the owner's stores to slots and to `top` in any order, until a membarrier. Used by one thread.
//
// The magazine has three slots, which are full at first. The owner does a few operations of its choice. For each object
// a plain variable says where it is; a thread that takes the object reads and writes that variable. So a data race is a
// failure, and so is an object that two threads have taken. At the end every object of the magazine is below `top`.
#include "protocol.hpp"

namespace weak {
namespace {

enum : unsigned { top, busy, claimed, slots };
// Plain variables: has_holes_, then the place of each object (object 1 is the variable 1), then loaded_.
enum : unsigned { has_holes, objects = 0, loaded = 4 };
enum : int { in_magazine, in_use, in_spans };
constexpr int slot_count = 3;

unsigned slot(int i) { return slots + static_cast<unsigned>(i); }

// Whether the owner takes the slow path at any time, or only if a pop finds a null.
bool slow_at_any_time = false;
// Whether pops are between enter() and leave() too, as for classes above the fast path. Then the taker also takes the
// topmost object.
bool guarded = false;
int operations = 0;

void move(thread& t, int object, int from, int to) {
  const auto variable = objects + static_cast<unsigned>(object);
  t.check(t.read(variable) == from, "an object has two owners");
  t.write(variable, to);
}

// The owner's own view of its magazine. Trivially destructible: see explorer.hpp.
struct owner_state {
  int at = slot_count;  // top
  int unsaid = -1;      // without "order of pops": a value of top that is stored only at the next pop
  bool mine[slot_count + 1] = {};
};

void store_top(thread& t, owner_state& own, int value) {
  own.at = value;
  t.store(top, value, order::relaxed);
}

// enter(). The signal fence (compiler) and the taker's membarrier (processor) keep the store of `busy` before the load.
bool enter(thread& t) {
  const bool late = without("order in enter");
  if (!late) t.store(busy, 1, order::relaxed);
  const bool others = t.load(claimed, unless("acquire in enter", order::acquire)) != 0;
  if (late) t.store(busy, 1, order::relaxed);
  // Releases too: a taker that sees this store need not have seen the one of an earlier leave().
  if (others) t.store(busy, 0, unless("release in enter", order::release));
  return !others;
}

void leave(thread& t) { t.store(busy, 0, unless("release in leave", order::release)); }

void close_holes(thread& t, owner_state& own) {
  if (t.read(has_holes) == 0) return;
  int kept = 0;
  for (int i = 0; i < own.at; ++i) {
    const int object = t.load(slot(i), order::relaxed);
    if (object != 0 && kept++ != i) t.store(slot(kept - 1), object, order::relaxed);
  }
  t.write(has_holes, 0);
  store_top(t, own, kept);
}

void slow_path(thread& t, owner_state& own) {
  if (!enter(t)) return;
  close_holes(t, own);
  t.write(loaded, 0);
  leave(t);
}

// False: the topmost slot is null, or there is none.
bool take_topmost(thread& t, owner_state& own) {
  const int object = own.at == 0 ? 0 : t.load(slot(own.at - 1), order::relaxed);
  if (own.unsaid >= 0) t.store(top, own.unsaid, order::relaxed);
  own.unsaid = -1;
  if (object == 0) return false;
  move(t, object, in_magazine, in_use);
  own.mine[object] = true;
  if (without("order of pops")) {
    own.unsaid = --own.at;
  } else {
    store_top(t, own, own.at - 1);
  }
  return true;
}

void pop(thread& t, owner_state& own) {
  if (!guarded) {
    if (!take_topmost(t, own)) slow_path(t, own);
    return;
  }
  if (!enter(t)) return;
  close_holes(t, own);
  take_topmost(t, own);
  leave(t);
}

void push(thread& t, owner_state& own, int object) {
  own.mine[object] = false;
  move(t, object, in_use, in_magazine);
  if (without("order in push")) {
    t.store(top, own.at + 1, order::relaxed);
    t.store(slot(own.at), object, order::relaxed);
    ++own.at;
  } else {
    t.store(slot(own.at), object, order::relaxed);
    store_top(t, own, own.at + 1);
  }
}

int any_of_mine(const owner_state& own) {
  for (int object = 1; object <= slot_count; ++object) {
    if (own.mine[object]) return object;
  }
  return 0;
}

void owner(thread& t) {
  owner_state own;
  for (int n = 0; n < operations; ++n) {
    const int object = own.at < slot_count ? any_of_mine(own) : 0;
    const int choice = t.choose(1 + (object != 0 ? 1 : 0) + (slow_at_any_time ? 1 : 0));
    if (choice == 0) {
      pop(t, own);
    } else if (choice == 1 && object != 0) {
      push(t, own, object);
    } else {
      slow_path(t, own);
    }
  }
  if (own.unsaid >= 0) t.store(top, own.unsaid, order::relaxed);
}

constexpr unsigned threads = 2;

// Looks again at a slot that was emptied. True: the object, if there was one, is the taker's.
bool is_taken(thread& t, int i, int object, int safe_end) {
  if (!without("look at slot") && t.load(slot(i), order::acquire) != 0) return false;
  if (i < safe_end || without("look at top")) return true;
  int expected = 0;
  if (!without("put back")) t.compare_exchange(slot(i), expected, object, order::acq_rel, order::relaxed);
  return false;
}

// empty_while_idle(): take_loaded(), give_back_taken().
void empty(thread& t) {
  t.read(loaded);
  const int kept = guarded || without("topmost stays") ? 0 : 1;
  const int count = t.load(top, order::relaxed) - kept;
  int taken[slot_count] = {};
  for (int i = 0; i < count; ++i) taken[i] = t.exchange(slot(i), 0, order::acq_rel);
  if (!without("fence before top")) t.process_fence(threads);
  const int now = t.load(top, order::relaxed);
  if (!without("fence after top")) t.process_fence(threads);
  bool holes = false;
  for (int i = 0; i < count; ++i) {
    if (!is_taken(t, i, taken[i], now - kept)) continue;
    holes = true;
    if (taken[i] != 0) move(t, taken[i], in_magazine, in_spans);
  }
  if (holes) t.write(has_holes, 1);
}

void taker(thread& t) {
  t.store(claimed, 1, order::relaxed);
  if (!without("fence after claim")) t.process_fence(threads);
  if (t.load(busy, unless("acquire of busy", order::acquire)) == 0 || without("look at busy")) empty(t);
  t.store(claimed, 0, unless("release of claim", order::release));
}

const char* all_there(const machine& m) {
  for (int object = 1; object <= slot_count; ++object) {
    const bool expected = m.plain_value(objects + static_cast<unsigned>(object)) == in_magazine;
    int found = 0;
    for (int i = 0; i < m.last(top); ++i) found += m.last(slot(i)) == object ? 1 : 0;
    if (found != (expected ? 1 : 0)) return expected ? "an object is lost" : "an object is in two places";
  }
  return nullptr;
}

// The lowest `missing` objects have already been taken.
model sleeper(int missing) {
  return {slots + slot_count, 2 + slot_count, {owner, taker}, all_there, [missing](machine& m) {
            m.set_initial(top, slot_count);
            m.set_initial_plain(has_holes, missing);
            for (int i = 0; i < slot_count; ++i) {
              if (i >= missing) m.set_initial(slot(i), i + 1);
              m.set_initial_plain(objects + static_cast<unsigned>(i + 1),
                                  i >= missing ? in_magazine : in_spans);
            }
          }};
}

// Covers: src/threads/thread_cache_idle.cpp: i.exchange acq_rel, slot.load acquire, busy_.load acquire
// Covers: src/threads/thread_cache.hpp: atomic_signal_fence seq_cst, busy_.store release,
// Covers: src/threads/thread_cache.hpp: claimed_.load acquire, claimed_.store release
model full_magazine() {
  guarded = slow_at_any_time = false;
  operations = 4;
  return sleeper(0);
}
const registered pops_and_pushes("sleeper.pops_and_pushes",
                                 {"fence after claim", "topmost stays", "fence before top", "look at top",
                                  "fence after top", "look at slot", "put back", "release of claim",
                                  "acquire in enter", "order of pops"},
                                 full_magazine);

// The lowest slot is null at first.
model magazine_with_hole() {
  guarded = false;
  slow_at_any_time = true;
  operations = 3;
  return sleeper(1);
}
const registered slow_paths("sleeper.slow_paths",
                            {"fence after claim", "look at busy", "acquire of busy", "topmost stays",
                             "fence before top", "look at top", "put back", "release of claim",
                             "order in enter", "acquire in enter", "release in enter", "release in leave",
                             "order of pops"},
                            magazine_with_hole);

// With guarded pops `top` does not fall after the claim, so the parts that deal with a falling `top` are not needed.
model guarded_magazine() {
  guarded = true;
  slow_at_any_time = false;
  operations = 3;
  return sleeper(0);
}
const registered guarded_pops("sleeper.guarded_pops",
                              {"fence after claim", "look at busy", "look at slot", "release of claim",
                               "order in enter", "acquire in enter", "order in push"},
                              guarded_magazine);

}  // namespace
}  // namespace weak
