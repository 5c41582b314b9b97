// SPDX-License-Identifier: MIT
// fork: the child gets a whole heap. All locks are taken before, in the order of their ranks, so that no
// structure is half changed at the moment of the copy, and released on both sides after, in reverse.
//
// The handlers are registered before those of other libraries where that can be had (engine.cpp), so that they run last
// before the fork and first after it: other libraries' handlers allocate, wait for threads and for locks of their own.
//
// A signal handler may fork whatever its thread was doing. What the thread holds stays as it is, on both sides, for the
// interrupted operation goes on when the handler returns. In the child the structures are put right only if none was
// being changed by it; otherwise the next fork's child does it, and until then what the parent's other threads held is
// lost to this one. From the first lock to the last, signals are blocked: no handler forks in there.
//
// libc's fork takes the lock of the list of open streams. A thread may hold that lock, or a stream's, while
// it waits for one of ours; so the list's lock has to come first, or fork would wait for ever.
#include <pthread.h>
#include <signal.h>

#include "os/report.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"
#include "os/thread.hpp"
#include "runtime/engine.hpp"
#include "runtime/extension.hpp"
#include "runtime/options.hpp"

extern "C" {
// glibc's; absent elsewhere. Recursive, as fork takes the list's lock again.
[[gnu::weak]] void _IO_list_lock();
[[gnu::weak]] void _IO_list_unlock();
[[gnu::weak]] void _IO_list_resetlock();
}

namespace tarn::engine {
namespace {

using os::lock_walk;

// The calling thread's forks: more than one if a handler of a signal that is not blocked forks inside of fork.
thread_local constinit unsigned depth = 0;
thread_local constinit std::uint64_t signals_before = 0;

// All but those that the processor raises, which a library's fork handler may need, and libc's own two: a setuid waits
// until all threads have taken the second one. It may be called by a handler above a section whose lock fork waits for.
void block_signals() {
  constexpr int of_libc[] = {32, 33};  // cancellation and setuid
  std::uint64_t mask = ~std::uint64_t{0};
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, of_libc[0], of_libc[1]})
    mask &= ~(std::uint64_t{1} << (signal - 1));
  os::system_call(SYS_rt_sigprocmask, SIG_BLOCK, reinterpret_cast<long>(&mask),
                  reinterpret_cast<long>(&signals_before), sizeof mask);
}

void restore_signals() {
  os::system_call(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&signals_before), 0,
                  sizeof signals_before);
}

void walk_extensions(const lock_walk& w, void (*extension::*locks)(const lock_walk&)) {
  for (unsigned i = 0; i < extension::count; ++i) {
    const extension* const e = extensions[w.backwards ? extension::count - 1 - i : i];
    if (e != nullptr) (e->*locks)(w);
  }
}

// In the order of the locks' ranks.
constexpr void (*groups[])(const lock_walk&) = {
    [](const lock_walk& w) { w.visit(preparation_lock()); },
    [](const lock_walk& w) { w.visit(options::lock()); },
    [](const lock_walk& w) { w.visit(registry.lock()); },
    [](const lock_walk& w) { walk_extensions(w, &extension::walk_upper_locks); },
    [](const lock_walk& w) {
      for (unsigned c = 0; c < size_classes::all; ++c) w.visit(central_tier.depot(c).lock);
    },
    [](const lock_walk& w) { w.visit(heap.lock()); },
    [](const lock_walk& w) { w.visit(central_tier.bits_lock()); },
    [](const lock_walk& w) { central_tier.magazines().walk_locks(w); },
    [](const lock_walk& w) { walk_extensions(w, &extension::walk_lower_locks); },
    [](const lock_walk& w) { w.visit(metadata.lock()); },
    [](const lock_walk& w) { w.visit(guards.lock()); },
};
constexpr unsigned group_count = sizeof groups / sizeof *groups;

void walk_locks(const lock_walk& w) {
  for (unsigned i = 0; i < group_count; ++i) groups[w.backwards ? group_count - 1 - i : i](w);
}

// The calling thread is in a signal handler that has interrupted a section of some lock.
bool has_interrupted_section() {
  static thread_local constinit bool found;
  found = false;
  walk_locks({[](os::mutex& m) { found = found || m.is_interrupted(); }});
  return found;
}

// `fork` is libc's: it will take the lock of the list of streams, too.
void before(bool fork) {
  if (depth++ != 0) return;
  block_signals();
  if (fork && _IO_list_lock != nullptr) _IO_list_lock();
  walk_locks({[](os::mutex& m) { m.take_for_fork(has_interrupted_section); }});
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

void put_structures_right() {
  heap.after_fork_in_child();
  registry.keep_only(local_cache != &no_cache ? local_cache : nullptr);
  for (const extension* e : extensions) {
    if (e != nullptr) e->after_fork_in_child();
  }
}

void after_in_child(bool fork) {
  if (--depth != 0) return;
  walk_locks({[](os::mutex& m) { m.drop_foreign_holder(); }});
  os::note_forked_child();
  os::note_threads_allowed();
  if (!has_interrupted_section()) put_structures_right();
  release_locks();
  if (fork && _IO_list_resetlock != nullptr) _IO_list_resetlock();
  os::forget_standard_error();
  restore_signals();
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

bool tarn::os::is_above_interrupted_section() {
  return tarn::engine::depth != 0 || tarn::engine::has_interrupted_section();
}
