// SPDX-License-Identifier: MIT
// Magazines, blocks and spans that pass between threads without a lock. Used by one thread.
#include "protocol.hpp"

namespace weak {
namespace {

// A spare magazine: its owner puts it where two other threads may take it, and takes it back if it is still there. Its
// content is a plain variable, which the thread that holds the magazine changes.
// Covers: src/slots/magazine_bin.hpp: place_.exchange acquire, place_.store release
// page_map::ensure() keeps a leaf that it made but did not need in the same way:
// Covers: src/pages/page_map.cpp: spare_leaf_.exchange acquire, spare_leaf_.store release
int take(thread& t, unsigned spare) {
  if (t.load(spare, order::relaxed) == 0) return 0;
  if (without("exchange")) {
    const int taken = t.load(spare, order::acquire);
    t.store(spare, 0, order::relaxed);
    return taken;
  }
  return t.exchange(spare, 0, unless("acquire", order::acquire));
}

model spare_magazine() {
  enum : unsigned { spare, content = 0 };
  const auto owner = [](thread& t) {
    t.write(content, 1);
    t.store(spare, 1, unless("release", order::release));
    if (take(t, spare) != 0) t.write(content, 2);
  };
  const auto taker = [](thread& t) {
    if (take(t, spare) != 0) t.write(content, t.read(content) + 10);
  };
  return {1, 1, {owner, taker, taker}, {}, {}};
}
const registered spare_protocol("handover.spare_magazine", {"exchange", "acquire", "release"},
                                spare_magazine);

// A slot of warm_spans. One thread frees a block and puts its span into the slot. A second thread allocates that length: it takes
// the span, uses it and puts it back. A third one runs a period of decay and takes what is in the slot. The span's content is a
// plain variable.
// Covers: src/pages/warm_spans.hpp: slot.compare_exchange_strong release, slot.compare_exchange_strong acquire
// Covers: src/pages/warm_spans.hpp: slot.exchange acquire
model warm_span() {
  enum : unsigned { slot, content = 0 };
  const auto put = [](thread& t) {
    int none = 0;
    t.compare_exchange(slot, none, 1, unless("release", order::release), order::relaxed);
  };
  const auto frees = [put](thread& t) {
    t.write(content, 1);
    put(t);
  };
  const auto asks = [put](thread& t) {
    int kept = t.load(slot, order::relaxed);
    if (kept == 0 ||
        !t.compare_exchange(slot, kept, 0, unless("taker's acquire", order::acquire), order::relaxed))
      return;
    t.write(content, t.read(content) + 10);
    put(t);
  };
  const auto period = [](thread& t) {
    if (t.exchange(slot, 0, unless("period's acquire", order::acquire)) != 0)
      t.write(content, t.read(content) + 100);
  };
  return {1, 1, {frees, asks, period}, {}, {}};
}
const registered warm_span_protocol("handover.warm_span", {"release", "taker's acquire", "period's acquire"},
                                    warm_span);

// The bin of a processor (processor_caches). The word says what it has: nothing, a magazine, or that a thread owns it.
// One thread owned it before the drainer cleared `base`, and ends; the drainer takes the magazine of a bin that nobody
// owns, and sets `base` again; another thread then becomes the owner. The magazine is a plain variable. That no sequence
// runs between the clearing and the setting of `base` is the kernel's part: tests/model/processors.pml. For base.store
// see publication.growing_list.
// Covers: src/threads/processor_caches.cpp: words.store release, words.load acquire, atomic_thread_fence acquire
model processor_bin() {
  enum : unsigned { word, base, magazine = 0 };
  constexpr int none = 0;
  constexpr int full = 1;
  constexpr int busy = 2;
  const auto first_owner = [](thread& t) {
    t.write(magazine, 1);
    t.store(word, full, unless("owner's release", order::release));
  };
  const auto drainer = [](thread& t) {
    if (t.load(word, unless("drainer's acquire", order::acquire)) == full) {
      t.write(magazine, t.read(magazine) + 10);
      t.store(word, none, order::relaxed);
    }
    t.store(base, 1, unless("base's release", order::release));
  };
  const auto next_owner = [](thread& t) {
    if (t.load(base, order::acquire) == 0) return;
    if (t.exchange(word, busy, order::relaxed) == busy) return;
    if (!without("owner's fence")) t.fence(order::acquire);
    t.write(magazine, 5);
    t.store(word, full, order::release);
  };
  return {2, 1, {first_owner, drainer, next_owner}, {}, [](machine& m) { m.set_initial(word, busy); }};
}
const registered bin_of_processor("handover.processor_bin",
                                  {"owner's release", "drainer's acquire", "base's release", "owner's fence"},
                                  processor_bin);

// recycler_bin::add_to(): counts the objects of a spare magazine, under the lock that keeps other threads from stealing
// the magazine, while its owner is not inside the bin.
// Covers: src/slots/magazine_bin.hpp: place_.load acquire
model counted_magazine() {
  enum : unsigned { spare, content = 0 };
  const auto owner = [](thread& t) {
    t.write(content, 1);
    t.store(spare, 1, order::release);
  };
  const auto counter = [](thread& t) {
    if (t.load(spare, unless("acquire", order::acquire)) != 0) t.read(content);
  };
  return {1, 1, {owner, counter}, {}, {}};
}
const registered counted("handover.counted_magazine", {"acquire"}, counted_magazine);

// store::exchange() of hardened_large_quarantine, retire() and release_one() of hardened_large: a thread puts a block
// into a place and takes out the one that was there, which it then owns. Blocks are plain variables.
// Covers: src/malloc/hardened_large_quarantine.cpp: pool.exchange acq_rel, queue.exchange acq_rel,
// Covers: src/malloc/hardened_large_quarantine.cpp: entry.exchange acq_rel
// Covers: src/malloc/hardened_large.cpp: waiting.exchange acq_rel
model exchanged_blocks() {
  enum : unsigned { waiting };
  const auto user = [](int mine) {
    return [=](thread& t) {
      t.write(static_cast<unsigned>(mine), 1);
      const order both = without("acquire")   ? order::release
                         : without("release") ? order::acquire
                                              : order::acq_rel;
      const int taken = t.exchange(waiting, mine, both);
      if (taken != 0) t.write(static_cast<unsigned>(taken), 2);
    };
  };
  return {1, 3, {user(1), user(2)}, {}, {}};
}
const registered quarantine("handover.quarantine", {"acquire", "release"}, exchanged_blocks);

// keep() and take() of hardened_type_spans: threads put spans, or chains of them, at the front of a list; a taker takes
// the whole list. The links are plain variables: the link of span n is the variable n. The release of a span's
// compare-exchange reaches the taker through the later compare-exchanges, which continue its release sequence.
// Covers: src/fronts/pools/hardened_type_spans.cpp: spans.compare_exchange_weak release, spans.exchange acquire
// Covers: src/malloc/hardened_large.cpp: refused.compare_exchange_weak release, refused.exchange acquire
model list_taken_as_a_whole() {
  enum : unsigned { spans };
  const auto keeper = [](int mine) {
    return [=](thread& t) {
      int front = t.load(spans, order::relaxed);
      do {
        t.write(static_cast<unsigned>(mine), front);
      } while (!t.compare_exchange(spans, front, mine, unless("release", order::release), order::relaxed));
    };
  };
  const auto taker = [](thread& t) {
    int at = t.exchange(spans, 0, unless("acquire", order::acquire));
    while (at != 0) {
      const int next = t.read(static_cast<unsigned>(at));
      t.write(static_cast<unsigned>(at), 0);
      at = next;
    }
  };
  return {1, 3, {keeper(1), keeper(2), taker}, {}, {}};
}
const registered type_home("handover.type_home", {"acquire", "release"}, list_taken_as_a_whole);

// enter() and leave() of include/tarn/detail/recycler_bin.hpp against with_claimed() of recycler_registry.cpp: the
// owner executes no fence between its store of `busy` and its load of `claimed`; the claimer's membarrier() provides
// one. The signal fence in enter() keeps the compiler from exchanging the two; without it the model executes them in
// the other order. The bin is a plain variable. A pop stores an odd and an even number in `taken` for 1 and 0 in `busy`.
// Covers: include/tarn/detail/recycler_bin.hpp: atomic_signal_fence seq_cst
// Covers: include/tarn/detail/recycler_bin.hpp: claimed.load acquire, inside.store release
// Covers: src/fronts/recyclers/recycler_bin.hpp: busy.load acquire, taken.load acquire
// Covers: src/fronts/recyclers/recycler_registry.cpp: claimed.store release
// Covers: src/fronts/recyclers/recycler_bin.cpp: claimed.store release
namespace claim {
enum : unsigned { busy, claimed, lock, claims };
enum : unsigned { bin, number };

void owner(thread& t) {
  for (int round = 0; round < 2; ++round) {
    int by = 0;
    if (without("signal fence")) {
      by = t.load(claimed, order::acquire);
      t.store(busy, 1, order::relaxed);
    } else {
      t.store(busy, 1, order::relaxed);
      by = t.load(claimed, unless("owner's acquire", order::acquire));
    }
    if (by == 0) t.write(bin, round);
    t.store(busy, 0, unless("owner's release", order::release));
  }
}

void claimer(thread& t) {
  t.lock(lock);
  const int claim = t.read(number) + 1;
  t.write(number, claim);
  t.store(claimed, claim, order::relaxed);
  t.unlock(lock);
  if (!without("membarrier")) t.process_fence(2);
  t.lock(lock);
  if (t.load(claimed, order::relaxed) == claim) {
    if (t.load(busy, unless("claimer's acquire", order::acquire)) == 0 || without("busy")) t.write(bin, 7);
    t.store(claimed, 0, unless("claimer's release", order::release));
  }
  t.unlock(lock);
}

model one_claimer() { return {4, 2, {owner, claimer}, {}, {}}; }
const registered protocol("handover.recycler_claim",
                          {"membarrier", "signal fence", "busy", "owner's acquire", "owner's release",
                           "claimer's acquire", "claimer's release"},
                          one_claimer);

// A claimer must not take another one's claim for its own, and end it. Each thread uses the bin once.
model two_claimers() {
  const auto once = [](thread& t) {
    t.store(busy, 1, order::relaxed);
    if (t.load(claimed, order::acquire) == 0) t.write(bin, 1);
    t.store(busy, 0, order::release);
  };
  const auto claimer_of_three = [](thread& t) {
    t.lock(lock);
    const int claim = t.read(number) + 1;
    t.write(number, claim);
    t.store(claimed, claim, order::relaxed);
    t.unlock(lock);
    t.process_fence(3);
    t.lock(lock);
    if (t.load(claimed, order::relaxed) == claim || without("number")) {
      if (t.load(busy, order::acquire) == 0) t.write(bin, 7);
      t.store(claimed, 0, order::release);
    }
    t.unlock(lock);
  };
  return {4, 2, {once, claimer_of_three, claimer_of_three}, {}, {}};
}
const registered two("handover.recycler_two_claims", {"number"}, two_claimers);
}  // namespace claim

}  // namespace
}  // namespace weak
