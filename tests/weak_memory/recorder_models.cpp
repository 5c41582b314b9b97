// SPDX-License-Identifier: MIT
// Protocols of the profiler: between the recorded threads, and between these and the collector, another process that
// shares memory with them. Used by one thread.
#include "protocol.hpp"

namespace weak {
namespace {

// A ring buffer between a recorded thread and the collector: put(), publish() and make_room() of recorder_state,
// drain() of ring_set.cpp. Its words are plain variables. The producer overwrites a word only after the
// collector has reported that it was read; the collector reads only words that were published. The kernel's ring of
// page faults has the same protocol, with the kernel as the producer.
// Covers: profiler/record/recorder_state.hpp: head.store release
// Covers: profiler/record/thread_state.cpp: tail.load acquire
// Covers: profiler/collect/ring_set.cpp: head.load acquire, tail.store release
// Covers: profiler/collect/perf_ring.cpp: data_head.load acquire, data_tail.store release
model ring() {
  enum : unsigned { head, tail };
  constexpr int words = 2;
  const auto producer = [](thread& t) {
    for (int at = 0; at < 3; ++at) {
      if (at >= t.load(tail, unless("producer's acquire", order::acquire)) + words) return;
      t.write(static_cast<unsigned>(at % words), at);
      t.store(head, at + 1, unless("producer's release", order::release));
    }
  };
  const auto collector = [](thread& t) {
    int at = 0;
    for (int round = 0; round < 2; ++round) {
      for (const int end = t.load(head, unless("collector's acquire", order::acquire)); at < end; ++at) {
        t.check(t.read(static_cast<unsigned>(at % words)) == at,
                "a word that was not written yet, or overwritten");
      }
      t.store(tail, at, unless("collector's release", order::release));
    }
  };
  return {2, 2, {producer, collector}, {}, {}};
}
const registered rings("recorder.ring",
                       {"producer's acquire", "producer's release", "collector's acquire",
                        "collector's release"},
                       ring);

// A fact that one thread publishes once and other threads then use. Found by one thread: find_real_functions(),
// attach(), look_at() of python_frames and lua_frames. Found by several threads, all with the same result, in atomic variables:
// hooks_new. Published once: process_ends() and the collector's answer, end_of_thread(), detach(),
// sampled_blocks::grow() (whose counts are atomic variables).
// Covers: profiler/record/module_names.cpp: key.load acquire, key.store release
// Covers: profiler/record/real_functions.cpp: functions_found.load acquire, functions_found.exchange acquire,
// Covers: profiler/record/real_functions.cpp: functions_found.store release
// Covers: profiler/record/thread_state.cpp: ending.store release, ending.load acquire
// Covers: profiler/record/process_life.cpp: ended.store release
// Covers: profiler/record/recorder_state.cpp: attaching.load acquire,
// Covers: profiler/record/recorder_state.cpp: attaching.compare_exchange_strong acquire, attaching.store release,
// Covers: profiler/record/recorder_state.cpp: filter.store release
// Covers: profiler/record/sampled_blocks.cpp: filter.store release
// Covers: profiler/record/hook_state.hpp: filter.load acquire
// Covers: profiler/record/recorder.cpp: large.load acquire
// Covers: profiler/record/hooks_new.cpp: looked.load acquire, looked.store release, are_short.load acquire, are_short.store release
// Covers: profiler/tail/tail_functions.cpp: has_operators.load acquire, has_operators.store release
// Covers: profiler/collect/recorded_process.cpp: ended.load acquire
// Covers: profiler/collect/process_memory.cpp: ended.load acquire
// Covers: profiler/collect/recorded_process.cpp: released.store release
// Covers: profiler/record/process_life.cpp: released.load acquire
// Covers: profiler/record/python_frames.cpp: state.compare_exchange_strong acquire, state.load acquire,
// Covers: profiler/record/python_frames.cpp: state.store release
// Covers: profiler/record/lua_frames.cpp: lua_now.compare_exchange_strong acquire, lua_now.load acquire, lua_now.store release
// The signal fences of `section` and of the tables of nodes order a thread and its own signal handlers, which this model does not
// contain.
// Covers: profiler/record/recorder.cpp: atomic_signal_fence seq_cst
// Covers: profiler/record/call_path.cpp: atomic_signal_fence seq_cst
model found_once() {
  enum : unsigned { found, count, fact = 0 };
  const auto user = [](thread& t) {
    if (t.load(found, unless("acquire", order::acquire)) != 2) {
      if (t.exchange(found, 1, order::acquire) != 0) return;
      t.write(fact, 1);
      t.store(count, 1, order::relaxed);
      t.store(found, 2, unless("release", order::release));
    }
    t.check(t.load(count, order::relaxed) == 1, "the counts are not there");
    t.check(t.read(fact) == 1, "the fact is not there");
  };
  const auto late = [](thread& t) {
    if (t.load(found, unless("acquire", order::acquire)) == 2)
      t.check(t.read(fact) == 1, "the fact is not there");
  };
  return {2, 1, {user, late, late}, {}, {}};
}
const registered found("recorder.found_once", {"acquire", "release"}, found_once);

// The lock of reports on guarded blocks, whose waiters sleep.
// Covers: src/samples/guarded/report.cpp: reporting.exchange acquire, reporting.store release
model report_lock() {
  enum : unsigned { word, content = 0 };
  const auto user = [](thread& t) {
    if (t.exchange(word, 1, unless("acquire", order::acquire)) != 0) return;  // the real one tries again
    t.write(content, t.read(content) + 1);
    t.store(word, 0, unless("release", order::release));
  };
  return {1, 1, {user, user, user}, {}, {}};
}
const registered reporting("guarded.report_lock", {"acquire", "release"}, report_lock);

// detach() and release_recording() unmap the session while a thread comes to get a ring (find_thread()). The thread
// increments `arriving` and then reads `detached`; detach() sets `detached` and then reads `arriving`. If neither saw
// the other's store, the session would be unmapped while the thread uses it. The seq_cst operations of both act as a
// full fence in between.
// Covers: profiler/record/thread_state.cpp: arriving.fetch_add seq_cst, arriving.fetch_sub release, detached.load seq_cst
// Covers: profiler/record/recorder_state.cpp: arriving.load seq_cst, detached.store seq_cst
model arrival() {
  enum : unsigned { arriving, detached, session = 0 };
  const auto newcomer = [](thread& t) {
    t.fetch_add(arriving, 1, order::relaxed);
    if (!without("newcomer's order")) t.full_fence();
    if (t.load(detached, order::relaxed) == 0) t.check(t.read(session) == 0, "the session is gone");
    t.fetch_add(arriving, -1, unless("release", order::release));
  };
  const auto taker = [](thread& t) {
    t.store(detached, 1, order::relaxed);
    if (!without("taker's order")) t.full_fence();
    if (t.load(arriving, unless("acquire", order::acquire)) == 0) t.write(session, 1);
  };
  return {2, 1, {newcomer, taker}, {}, {}};
}
const registered arrivals("recorder.arrival", {"newcomer's order", "taker's order", "release", "acquire"},
                          arrival);

// The same for a thread that has a ring and is inside the recorder when `detached` is set. Two things are not modelled:
// a thread that enters later sees `detached` because enough time has passed (see enter()), and the signal fence orders
// a thread with its own signal handlers.
// Covers: profiler/record/recorder_state.hpp: inside.store release, atomic_signal_fence seq_cst
// Covers: profiler/record/recorder_state.cpp: inside.load acquire
model leaving() {
  enum : unsigned { outside, session = 0 };
  const auto user = [](thread& t) {
    t.check(t.read(session) == 0, "the session is gone");
    t.store(outside, 1, unless("release", order::release));
  };
  const auto taker = [](thread& t) {
    if (t.load(outside, unless("acquire", order::acquire)) == 1) t.write(session, 1);
  };
  return {1, 1, {user, taker}, {}, {}};
}
const registered departures("recorder.leaving", {"release", "acquire"}, leaving);

}  // namespace
}  // namespace weak
