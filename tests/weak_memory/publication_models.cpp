// SPDX-License-Identifier: MIT
// Data that one thread makes and other threads find without a lock. Used by one thread.
#include "protocol.hpp"

namespace weak {
namespace {

// The first thread that needs a pool makes it. If two threads make one at the same time, the second one destroys its
// own and uses the first one's. The two pools are plain variables.
// tarn_buffer_pool_shared(), shared_slot_pool::prepare(), object_pool::pairs():
// Covers: src/fronts/buffers/buffer_abi.cpp: shared_pool.load acquire, shared_pool.compare_exchange_strong acq_rel
// Covers: include/tarn/detail/slot_pools.hpp: pool_.load acquire, pool_.compare_exchange_strong acq_rel,
// Covers: include/tarn/detail/slot_pools.hpp: pool_.compare_exchange_strong acquire
// Covers: include/tarn/pool.hpp: pairs_.load acquire, pairs_.compare_exchange_strong acq_rel,
// Covers: include/tarn/pool.hpp: pairs_.compare_exchange_strong acquire
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

// A list or an array that only grows, under a lock: threads that read it without the lock find complete members.
// add() of buffer_group and for_each_pool() of buffer_core; assign_shard_locked() and for_each_shard() of
// pool_core:
// Covers: src/fronts/buffers/buffer_core.hpp: newest.load acquire, newest.store release
// Covers: src/fronts/pools/pool_core.cpp: shard_count_.store release
// Covers: src/fronts/pools/pool_core.hpp: shard_count_.load acquire
// open_depot() and depot_for() of central:
// Covers: src/slots/class_depots.cpp: entry.store release
// Covers: src/slots/class_depots.hpp: others_.load acquire
// make_table() of processor_caches, and the walks over its tables. The sequences find a table by an address that they
// load: what they load through it depends on the address, which keeps the order that an acquire keeps.
// Covers: src/threads/processor_caches.cpp: tables_.store release, tables_.load acquire, base.store release
model growing_list() {
  enum : unsigned { lock, first };
  const auto attach = [](unsigned member) {
    return [=](thread& t) {
      t.lock(lock);
      t.write(member, 10 + t.load(first, order::relaxed));  // its link: 10 + the next member
      t.store(first, static_cast<int>(member), unless("release", order::release));
      t.unlock(lock);
    };
  };
  const auto reader = [](thread& t) {
    for (int e = t.load(first, unless("acquire", order::acquire)); e != 0;) {
      const int content = t.read(static_cast<unsigned>(e));
      t.check(content >= 10, "the member is not whole");
      e = content - 10;
    }
  };
  return {2, 3, {attach(1), attach(2), reader}, {}, {}};
}
const registered list("publication.growing_list", {"release", "acquire"}, growing_list);

// prepare() and attach_thread() of src/engine/engine.cpp: one thread prepares the engine, under the lock.
// Covers: src/engine/engine.cpp: prepared.load acquire, prepared.store release
// make_words_anew() of processor_caches, in a forked child, under the registry's lock:
// Covers: src/threads/processor_caches.cpp: is_own.load acquire, is_own.store release
// Covers: src/threads/processor_caches.hpp: is_own.load acquire
model engine_ready() {
  enum : unsigned { prepared, lock, settings = 0 };
  const auto user = [](thread& t) {
    if (t.load(prepared, unless("acquire", order::acquire)) == 0) {
      t.lock(lock);
      if (t.load(prepared, order::relaxed) == 0 || without("second look")) {
        t.write(settings, 1);
        t.store(prepared, 1, unless("release", order::release));
      }
      t.unlock(lock);
    }
    t.check(t.read(settings) == 1, "the engine is not ready");
  };
  return {2, 1, {user, user, user}, {}, {}};
}
const registered engine("publication.engine_ready", {"acquire", "release", "second look"}, engine_ready);

// measured_prices() of src/fronts/buffers/buffer_memory.cpp: one thread measures; the others do not wait for the result, and
// do without it until it is there.
// begin() and is_own() of black_box, in a forked child: the others do without a box meanwhile.
// Covers: src/samples/followed/black_box.cpp: sentinel_.store release
// Covers: src/samples/followed/black_box.hpp: sentinel_.load acquire
// Covers: src/fronts/buffers/buffer_memory.cpp: progress.compare_exchange_strong acquire, progress.load acquire,
// Covers: src/fronts/buffers/buffer_memory.cpp: progress.store release
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

// choose_for_this_thread() and prepare() of processor_caches: the first thread that wants to share asks the system
// whether that is possible; the others do without until the answer is there.
// Covers: src/threads/processor_caches.cpp: state_.load acquire, state_.store release,
// Covers: src/threads/processor_caches.cpp: state_.compare_exchange_strong acquire
// Covers: src/threads/processor_caches.hpp: state_.load acquire
model asked_once() {
  enum : unsigned { state, pages = 0 };
  const auto user = [](thread& t) {
    constexpr int asking = 1;
    constexpr int usable = 2;
    int now = t.load(state, unless("acquire", order::acquire));
    if (now == 0 &&
        t.compare_exchange(state, now, asking, order::acquire, unless("failure's acquire", order::acquire))) {
      t.write(pages, 1);
      t.store(state, usable, unless("release", order::release));
      now = usable;
    }
    if (now == usable) t.check(t.read(pages) == 1, "the pages are not ready");
  };
  return {1, 1, {user, user}, {}, {}};
}
const registered asked("publication.asked_once", {"release", "acquire", "failure's acquire"}, asked_once);

// page_map: two threads call ensure() for the same leaf, then set_objects() for pages of theirs, before the program
// gets a pointer into such a page. The program passes the pointer to another thread with release and acquire. That
// thread frees it: find() reads the root's entry and the page's word by relaxed loads.
// Covers: src/pages/page_map.cpp: root_.compare_exchange_strong acquire, root_.compare_exchange_strong release
model page_map() {
  enum : unsigned { root, word_of_one, word_of_two, passed };
  const auto allocate = [](thread& t, int leaf, unsigned word) {
    int known = 0;
    if (t.compare_exchange(root, known, 0, order::acquire, order::acquire))
      t.compare_exchange(root, known, leaf, order::release, order::relaxed);
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

// A value that is published once, after the data that it leads to (a plain variable).
// shared_slot_pool::number_ of include/tarn/detail/slot_pools.hpp, by which a thread finds its bin of the pool:
// Covers: include/tarn/detail/slot_pools.hpp: number_.store release, number_.load acquire
// The address of the guarded blocks, whose slots and length are prepared before:
// Covers: src/samples/guarded/guarded_blocks.cpp: base_.load acquire, base_.store release
// Covers: src/samples/guarded/guarded_blocks.hpp: base_.load acquire
// The number of looks of pressure::watch, whose figures are stored before (later looks replace them by newer ones), and
// of rounds, which free memory before:
// Covers: src/background/pressure.cpp: looks_.fetch_add release, looks_.load acquire
// Covers: src/background/pressure.cpp: rounds.fetch_add release, rounds.load acquire
// The span of a page, which is constructed before; the walk over a scope's pages finds spans of others:
// Covers: src/pages/page_map.hpp: owners.store release, owners.load acquire
// attach() and for_each_front() of src/engine/front.hpp, whose flags are set once:
// Covers: src/engine/front.hpp: attached.store release, attached.load acquire
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

// A checked scope ends: its span with survivors is marked, and then the chunk is given to the heir. free_scoped() of
// src/malloc/block.cpp, on a thread in the heir's scope, reads a block without a lock (its mark) if the heir owns the
// span and the span is an ordinary one; so it reads the owner first.
// Covers: src/fronts/scopes/scope_end.cpp: owner.store release
// Covers: src/fronts/scopes/scope_core.hpp: owner.load acquire
model withheld_span() {
  enum : unsigned { owner, kind };
  const auto end = [](thread& t) {
    constexpr int closing = 1;
    constexpr int heir = 1;
    t.store(kind, closing, order::relaxed);
    t.store(owner, heir, unless("release", order::release));
  };
  const auto deallocate = [](thread& t) {
    const bool owner_last = without("owner first");
    const bool was_cut = owner_last && t.load(kind, order::relaxed) == 0;
    if (t.load(owner, unless("acquire", order::acquire)) == 0) return;
    const bool is_cut = owner_last ? was_cut : t.load(kind, order::relaxed) == 0;
    t.check(!is_cut, "the mark of a block that becomes inaccessible is read");
  };
  return {2, 0, {end, deallocate, deallocate}, {}, {}};
}
const registered withheld("publication.withheld_span", {"owner first", "release", "acquire"}, withheld_span);

// grains and class_depots change a span and give it to another depot, under the lock of the depot that
// has it. put_back() of the depot that gets it, under its own lock, reads a span only if the span has its home.
// Covers: src/slots/grains.cpp: home.store release
// Covers: src/slots/class_depots.cpp: home.store release
// Covers: src/slots/class_depots.cpp: home.load acquire
// Covers: src/slots/class_depots.hpp: home.load acquire
model span_with_a_new_home() {
  enum : unsigned { home, first_lock, second_lock, size_class = 0 };
  const auto divide = [](thread& t) {
    t.lock(first_lock);
    t.write(size_class, 1);
    t.store(home, 1, unless("release", order::release));
    t.unlock(first_lock);
  };
  const auto put_back = [](thread& t) {
    t.lock(second_lock);
    if (t.load(home, unless("acquire", order::acquire)) == 1)
      t.check(t.read(size_class) == 1, "the class that the span had before");
    t.unlock(second_lock);
  };
  return {3, 1, {divide, put_back, put_back}, {}, {}};
}
const registered spans("publication.span_with_a_new_home", {"release", "acquire"}, span_with_a_new_home);

// A thread makes a shard of a typed pool and moves a span of another shard to it, under the locks of both. A third thread,
// which has a slot of that span, finds the span's shard without a lock and reads to which pool the shard belongs.
// Covers: src/slots/slot_depot.hpp: owner.store release
// Covers: src/slots/slot_depot.hpp: owner.load acquire
// Covers: src/fronts/pools/pool_shard.cpp: owner.load acquire
model span_of_a_new_shard() {
  enum : unsigned { owner, old_lock, new_lock, pool = 0 };
  const auto move = [](thread& t) {
    t.write(pool, 1);
    t.lock(old_lock);
    t.lock(new_lock);
    t.store(owner, 1, unless("release", order::release));
    t.unlock(new_lock);
    t.unlock(old_lock);
  };
  const auto put_back = [](thread& t) {
    if (t.load(owner, unless("acquire", order::acquire)) == 1)
      t.check(t.read(pool) == 1, "a shard that is not made yet");
  };
  return {3, 1, {move, put_back, put_back}, {}, {}};
}
const registered shards("publication.span_of_a_new_shard", {"release", "acquire"}, span_of_a_new_shard);

// recycler<T>::leave(): the last holder of the state deletes it, after it has seen what the other holders did with it.
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
      for (unsigned i = 0; i < 3; ++i)
        t.check(t.read(i) == 1, "the last holder has not seen what another one did");
    };
  };
  return {1, 3, {holder(0), holder(1), holder(2)}, {}, [](machine& m) { m.set_initial(references, 3); }};
}
const registered references("publication.last_reference", {"release", "acquire"}, last_reference);

}  // namespace
}  // namespace weak
