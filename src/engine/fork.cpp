// SPDX-License-Identifier: MIT
// fork: gives the child a consistent heap. Before fork, all locks are taken in the order of their ranks, so no
// structure is being changed when the process is copied; after it, both sides release them in reverse order.
//
// Where possible, the handlers are registered before those of other libraries (engine.cpp), so that they run last
// before fork and first after it: other libraries' handlers allocate, and wait for threads and for locks of their own.
//
// A signal handler may fork whatever its thread was doing. Locks that the thread holds stay held on both sides, because
// the interrupted operation continues when the handler returns. The child repairs the structures only while its thread is
// not changing any of them, and the page heap also if its thread is changing others. If the handler has interrupted a
// critical section, the rest waits for the section's end (finish_fork_in_child()), as if the handler had come just after
// it: what other threads were about to put down (a pin, a claim, an entered scope) is put down before the thread waits
// for anything but a lock. Signals are blocked while locks are being taken and held, so no handler forks meanwhile.
//
// libc's fork takes the lock of the list of open streams. A thread may wait for one of our locks while it holds that
// lock or a stream's. So the list's lock is taken first; otherwise fork could deadlock.
#include <pthread.h>
#include <signal.h>

#include "engine/engine.hpp"
#include "engine/front.hpp"
#include "engine/options.hpp"
#include "os/memory_calls.hpp"
#include "os/own_threads/thread.hpp"
#include "os/report.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"

extern "C" {
// Functions of glibc, absent in other libcs. The lock is recursive: fork takes it again.
[[gnu::weak]] void _IO_list_lock();
[[gnu::weak]] void _IO_list_unlock();
[[gnu::weak]] void _IO_list_resetlock();
}

namespace tarn::engine {
namespace {

using os::lock_walk;

// Nesting of the calling thread's forks: above 1 if the handler of a signal that is not blocked forks within fork.
thread_local constinit unsigned depth = 0;
thread_local constinit std::uint64_t signals_before = 0;
// In a child: threads_attached() when it was forked.
constinit std::size_t threads_at_fork = 0;
// The process that forks. 0: a filter may forbid to ask.
constinit int forking_process = 0;

// Blocks all signals except those that the processor raises, which a library's fork handler may need, and libc's two
// own signals: setuid waits until every thread has handled the second one, and may have been called by a handler that
// interrupted a critical section whose lock fork waits for.
void block_signals() {
  constexpr int of_libc[] = {32, 33};  // cancellation and setuid
  std::uint64_t mask = ~std::uint64_t{0};
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, of_libc[0], of_libc[1]})
    mask &= ~(std::uint64_t{1} << (signal - 1));
  os::system_call(SYS_rt_sigprocmask, SIG_BLOCK, &mask, &signals_before, sizeof mask);
}

void restore_signals() {
  os::system_call(SYS_rt_sigprocmask, SIG_SETMASK, &signals_before, 0, sizeof signals_before);
}

void walk_front_locks(const lock_walk& w) {
  for (unsigned i = 0; i < front::count; ++i) {
    const front* const e = fronts[w.backwards ? front::count - 1 - i : i];
    if (e != nullptr) e->walk_locks(w);
  }
}

// In the order of the locks' ranks.
constexpr lock_walk::part groups[] = {
    [](const lock_walk& w) { w.visit(preparation_lock()); },
    [](const lock_walk& w) { w.visit(options::lock()); },
    [](const lock_walk& w) { w.visit(registry.lock()); },
    walk_front_locks,
    [](const lock_walk& w) { central_tier.depots().walk_locks(w); },
    [](const lock_walk& w) { w.visit(heap.lock()); },
    [](const lock_walk& w) { w.visit(heap.structs_lock()); },
    [](const lock_walk& w) { central_tier.magazines().walk_locks(w); },
    [](const lock_walk& w) { blocks.walk_locks(w); },
    [](const lock_walk& w) { samples.walk_store_locks(w); },
    [](const lock_walk& w) { w.visit(metadata.lock()); },
    [](const lock_walk& w) { w.visit(guards.lock()); },
    [](const lock_walk& w) { w.visit(samples.lock()); },
};

void walk_locks(const lock_walk& w) { w.all(groups); }

// Whether the calling thread is in a signal handler that has interrupted a critical section. `mark`: the section's end
// will then be noticed.
template <bool mark>
bool has_interrupted_section() {
  static thread_local constinit bool found;
  found = false;
  walk_locks(
      {[](os::mutex& m) { found = (mark ? m.is_interrupted_and_marked() : m.is_interrupted()) || found; }});
  return found;
}

// `fork`: called for libc's fork, which will take the lock of the list of streams.
void before(bool fork) {
  // Before the count: a handler that forks in between must find that nothing is held yet.
  if (depth == 0) block_signals();
  if (depth++ != 0) return;
  if (fork && _IO_list_lock != nullptr) _IO_list_lock();
  forking_process = os::is_filtered() ? 0 : static_cast<int>(os::system_call(SYS_getpid));
  walk_locks({[](os::mutex& m) { m.take_for_fork(has_interrupted_section<true>); }});
}

void release_locks() {
  walk_locks({[](os::mutex& m) { m.release_for_fork(); }, true});
}

void after_in_parent(bool fork) {
  if (--depth != 0) return;
  os::note_threads_allowed();
  release_locks();
  if (fork && _IO_list_unlock != nullptr) _IO_list_unlock();
  restore_signals();
}

// `heap_is_consistent`: fork held the page heap's lock.
void put_structures_right(bool heap_is_consistent) {
  if (heap_is_consistent) {
    heap.after_fork_in_child();
  } else {
    heap.forget_other_threads();
  }
  os::is_fork_unfinished = has_interrupted_section<true>();
  if (os::is_fork_unfinished) return;
  heap.forget_struct_holds();
  central_tier.magazines().forget_holds();
  central_tier.depots().after_fork_in_child(forking_process);
  blocks.forget_holds();
  metadata.forget_others();
  processors.note_forked_child(processor_user.in_use);
  registry.keep_only(local_cache != &no_cache ? local_cache : nullptr);
  for (const front* e : fronts) {
    if (e != nullptr) e->after_fork_in_child();
  }
}

// Requires: fork holds all locks that the thread has not held before.
void put_right_and_release_locks() {
  const bool heap_is_consistent = heap.lock().is_held_by_fork();
  {
    const os::quiet_thread quiet;  // under all locks
    put_structures_right(heap_is_consistent);
  }
  release_locks();
}

void after_in_child(bool fork) {
  if (--depth != 0) return;
  walk_locks({[](os::mutex& m) { m.drop_foreign_holder(); }});
  os::note_forked_child();
  os::note_threads_allowed();
  put_right_and_release_locks();
  threads_at_fork = threads_attached();
  if (fork && _IO_list_resetlock != nullptr) _IO_list_resetlock();
  os::forget_standard_error();
  restore_signals();
  // The parent's control thread is not here, and its socket is in a table of descriptors that only that thread has.
  if (!os::is_fork_unfinished) options::start_control();
}

}  // namespace

void register_fork_handlers() {
  static constinit std::atomic<bool> registered{false};
  if (!registered.exchange(true, std::memory_order_relaxed)) {
    pthread_atfork([] { before(true); }, [] { after_in_parent(true); }, [] { after_in_child(true); });
  }
}

void before_copy() { before(false); }
void after_copy_in_parent() { after_in_parent(false); }
void after_copy_in_child() { after_in_child(false); }

}  // namespace tarn::engine

// The end of a lock's section. A handler that has started threads, which the repair would take for the parent's, leaves it
// to the next fork's child.
void tarn::os::finish_fork_in_child() {
  using namespace tarn::engine;
  if (depth != 0 || has_interrupted_section<true>()) return;
  is_fork_unfinished = false;
  if (threads_attached() == threads_at_fork) {
    before(false);
    --depth;
    put_right_and_release_locks();
    restore_signals();
  }
  options::start_control();
}

bool tarn::os::is_above_interrupted_section() {
  return tarn::engine::depth != 0 || tarn::engine::has_interrupted_section<false>();
}
