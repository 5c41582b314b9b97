// SPDX-License-Identifier: MIT
// fork: the child gets a whole heap. All locks are taken before, in the order of their ranks, so that no
// structure is half changed at the moment of the copy, and let go on both sides after.
//
// libc's fork takes the lock of the list of open streams. A thread may hold that lock, or a stream's, while
// it waits for one of ours; so the list's lock has to come first, or fork would wait for ever.
#include <pthread.h>

#include "os/report.hpp"
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

// In the order of their ranks.
void for_each_lock(void (*visit)(os::mutex&)) {
  visit(options::lock());
  visit(registry.lock());
  visit(attach_lock());
  for_each_extension([visit](const extension& e) { e.visit_upper_locks(visit); });
  for (unsigned c = 0; c < size_classes::count; ++c) visit(middle.depot(c).lock);
  visit(heap.lock());
  visit(middle.bits_lock());
  middle.magazines().for_each_lock(visit);
  for_each_extension([visit](const extension& e) { e.visit_lower_locks(visit); });
  visit(metadata.lock());
}

void before_fork() {
  if (_IO_list_lock != nullptr) _IO_list_lock();
  for_each_lock([](os::mutex& m) { m.lock(); });
}

void after_fork_in_parent() {
  for_each_lock([](os::mutex& m) { m.unlock(); });
  if (_IO_list_unlock != nullptr) _IO_list_unlock();
}

void after_fork_in_child() {
  for_each_lock([](os::mutex& m) { m.reset(); });
  if (_IO_list_resetlock != nullptr) _IO_list_resetlock();
  heap.after_fork_in_child();
  registry.keep_only(local_cache != &no_cache ? local_cache : nullptr);
  for_each_extension([](const extension& e) { e.after_fork_in_child(); });
  os::forget_standard_error();
}

}  // namespace

void register_fork_handlers() { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

}  // namespace tarn::engine
