// SPDX-License-Identifier: MIT
// What one thread makes and others find without a lock. Used by one thread.
#include "protocol.hpp"

namespace weak {
namespace {

// A pool is made by the first who needs it; who is second destroys its own and takes the first one's. `made` are the two
// pools as plain variables.
// tarn_buffer_pool_shared(), shared_slot_pool::prepare(), object_pool::pairs():
// Covers: src/buffers/buffer_abi.cpp: shared_pool.load acquire, shared_pool.compare_exchange_strong acq_rel
// Covers: include/tarn/pool_resource.hpp: pool_.load acquire, pool_.compare_exchange_strong acq_rel,
// Covers: include/tarn/pool_resource.hpp: pool_.compare_exchange_strong acquire
// Covers: include/tarn/object_pool.hpp: pairs_.load acquire, pairs_.compare_exchange_strong acq_rel,
// Covers: include/tarn/object_pool.hpp: pairs_.compare_exchange_strong acquire
model made_once() {
  enum : unsigned { pool };
  const auto user = [](int mine) {
    return [=](thread& t) {
      int found = t.load(pool, unless("load's acquire", order::acquire));
      if (found == 0) {
        t.write(static_cast<unsigned>(mine), 1);
        const order success = without("release") ? order::acquire : order::acq_rel;
        if (t.compare_exchange(pool, found, mine, success, unless("failure's acquire", order::acquire)))
          found = mine;
      }
      t.check(t.read(static_cast<unsigned>(found)) == 1, "the pool is not whole");
    };
  };
  return {1, 3, {user(1), user(2)}, {}, {}};
}
const registered once("publication.made_once", {"load's acquire", "release", "failure's acquire"}, made_once);

// A list or an array that only grows: who follows it finds whole members.
// attach() and for_each_extension(): members are sorted, so one may come between two; first member, next member.
// Covers: src/runtime/extension.cpp: link.store release
// Covers: src/runtime/extension.hpp: extensions.load acquire, next.load acquire
// create() and first() of buffer_registry; assign_shard_locked() and for_each_shard() of pool_core:
// Covers: src/buffers/buffer_registry.cpp: pools.load acquire, pools.store release
// Covers: src/pool/pool_core.cpp: shard_count_.store release
// Covers: src/pool/pool_core.hpp: shard_count_.load acquire
model growing_list() {
  enum : unsigned { lock, first, next_of_one, next_of_two, second_is_there };
  const auto attach = [](int member) {
    return [=](thread& t) {
      t.lock(lock);
      t.write(static_cast<unsigned>(member), 1);
      unsigned link = first;
      int behind = t.load(link, order::relaxed);
      if (behind != 0 && behind < member) {
        link = behind == 1 ? next_of_one : next_of_two;
        behind = t.load(link, order::relaxed);
      }
      const unsigned own = member == 1 ? next_of_one : next_of_two;
      if (!without("next first")) t.store(own, behind, order::relaxed);
      t.store(link, member, unless("release", order::release));
      if (without("next first")) t.store(own, behind, order::relaxed);
      t.unlock(lock);
    };
  };
  const auto reader = [](thread& t) {
    int count = 0;
    bool found_second = false;
    const int had = t.load(second_is_there, order::acquire);
    for (int e = t.load(first, unless("acquire", order::acquire)); e != 0;
         e = t.load(e == 1 ? next_of_one : next_of_two, unless("next's acquire", order::acquire))) {
      t.check(t.read(static_cast<unsigned>(e)) == 1, "the member is not whole");
      t.check(++count <= 2, "the list has no end");
      found_second = found_second || e == 2;
    }
    t.check(had == 0 || found_second, "a member that was there is not found any more");
  };
  const auto attach_second = [=](thread& t) {
    attach(2)(t);
    t.store(second_is_there, 1, order::release);
  };
  return {5, 3, {attach(1), attach_second, reader}, {}, {}};
}
const registered list("publication.growing_list", {"release", "acquire", "next's acquire", "next first"},
                      growing_list);

// prepare() and attach_thread() of src/runtime/engine.cpp: one thread makes the engine ready, others wait.
// Covers: src/runtime/engine.cpp: engine_state.compare_exchange_strong acquire, engine_state.load acquire,
// Covers: src/runtime/engine.cpp: engine_state.store release
model engine_ready() {
  enum : unsigned { state, settings = 0 };
  const auto user = [](thread& t) {
    constexpr int preparing = 1;
    constexpr int ready = 2;
    if (t.load(state, unless("acquire", order::acquire)) != ready) {
      int expected = 0;
      if (t.compare_exchange(state, expected, preparing, order::acquire, unless("acquire", order::acquire))) {
        t.write(settings, 1);
        t.store(state, ready, unless("release", order::release));
        if (!without("wake")) t.futex_wake(state, true);
      } else {
        while (t.load(state, unless("acquire", order::acquire)) == preparing) t.futex_wait(state, preparing);
      }
    }
    t.check(t.read(settings) == 1, "the engine is not ready");
  };
  return {1, 1, {user, user, user}, {}, {}};
}
const registered engine("publication.engine_ready", {"acquire", "release", "wake"}, engine_ready);

// measured_prices() of src/buffers/buffer_memory.cpp: one thread measures; others do not wait, and take nothing yet.
// Covers: src/buffers/buffer_memory.cpp: progress.compare_exchange_strong acquire, progress.load acquire,
// Covers: src/buffers/buffer_memory.cpp: progress.store release
model measured_once() {
  enum : unsigned { progress, prices = 0 };
  const auto user = [](thread& t) {
    constexpr int now = 1;
    constexpr int done = 2;
    int expected = 0;
    if (t.compare_exchange(progress, expected, now, order::acquire, order::acquire)) {
      t.write(prices, 1);
      t.store(progress, done, unless("release", order::release));
    } else if (without("acquire") && t.load(progress, order::relaxed) == done) {
      t.read(prices);
    }
    if (!without("acquire") && t.load(progress, order::acquire) == done) t.read(prices);
  };
  const auto late = [](thread& t) {
    if (t.load(progress, unless("acquire", order::acquire)) == 2) t.read(prices);
  };
  return {1, 1, {user, late}, {}, {}};
}
const registered measured("publication.measured_once", {"release", "acquire"}, measured_once);

// page_map::ensure() by two threads that need the same leaf; set_objects() and find(): the root's entry, then the word of
// a page, which is written before the program gets a pointer into the page. The program passes the pointer to another
// thread as it likes, with release and acquire; that thread frees it and looks both up by relaxed loads.
// Covers: src/pages/page_map.cpp: root_.load acquire, root_.compare_exchange_strong release
model page_map() {
  enum : unsigned { root, word_of_one, word_of_two, passed };
  const auto allocate = [](thread& t, int leaf, unsigned word) {
    int known = t.load(root, order::acquire);
    if (known == 0) t.compare_exchange(root, known, leaf, order::release, order::relaxed);
    if (!without("word before pointer")) t.store(word, 1, order::relaxed);
  };
  const auto first = [=](thread& t) {
    allocate(t, 1, word_of_one);
    t.store(passed, 1, unless("program's release", order::release));
    if (without("word before pointer")) t.store(word_of_one, 1, order::relaxed);
  };
  const auto second = [=](thread& t) { allocate(t, 2, word_of_two); };
  const auto freeing = [](thread& t) {
    if (t.load(passed, unless("program's acquire", order::acquire)) == 0) return;
    t.check(t.load(root, order::relaxed) != 0, "no leaf for a pointer that was handed out");
    t.check(t.load(word_of_one, order::relaxed) == 1, "no class for a pointer that was handed out");
  };
  return {4, 0, {first, second, freeing}, {}, {}};
}
const registered map("publication.page_map",
                     {"word before pointer", "program's release", "program's acquire"}, page_map);

// shared_slot_pool::number_ of include/tarn/pool_resource.hpp: the number leads to this thread's bin; what is known of the
// pool with that number (a plain variable) must be the new pool's.
// Covers: include/tarn/pool_resource.hpp: number_.store release, number_.load acquire
model pool_number() {
  enum : unsigned { number, pool = 0 };
  const auto maker = [](thread& t) {
    t.write(pool, 1);
    t.store(number, 1, unless("release", order::release));
  };
  const auto user = [](thread& t) {
    if (t.load(number, unless("acquire", order::acquire)) == 1)
      t.check(t.read(pool) == 1, "another pool's bin");
  };
  return {1, 1, {maker, user, user}, {}, {}};
}
const registered numbered("publication.pool_number", {"release", "acquire"}, pool_number);

// recycler<T>::leave(): the last of those who hold the state deletes it, and has seen what the others did with it.
// Covers: include/tarn/recycler.hpp: references.fetch_sub acq_rel
model last_reference() {
  enum : unsigned { references };
  const auto holder = [](unsigned own) {
    return [=](thread& t) {
      t.write(own, 1);
      const order o = without("release")   ? order::acquire
                      : without("acquire") ? order::release
                                           : order::acq_rel;
      if (t.fetch_add(references, -1, o) != 1) return;
      for (unsigned i = 0; i < 3; ++i) t.check(t.read(i) == 1, "something is left out");
    };
  };
  return {1, 3, {holder(0), holder(1), holder(2)}, {}, [](machine& m) { m.set_initial(references, 3); }};
}
const registered references("publication.last_reference", {"release", "acquire"}, last_reference);

}  // namespace
}  // namespace weak
