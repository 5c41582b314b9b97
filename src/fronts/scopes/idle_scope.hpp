// SPDX-License-Identifier: MIT
// idle_scope: where a scope stands among those that have empty spans. A scope that has had some is listed by the one around
// it, which is listed by the next one, and so on, so that who finds a scope full, or the system without memory, looks at
// what others have left, and at nobody else.
//
// Thread safety: any thread. Lists and links are guarded by one lock, which is taken after all locks of scopes.
#pragma once

#include <atomic>

#include "fronts/scopes/scope_charge.hpp"
#include "os/mutex.hpp"

namespace tarn {

class idle_scope : public scope_charge {
 public:
  // Of the lists, for fork.
  static os::mutex& idle_lock();

  // Of those that the scope around lists.
  idle_scope* next = nullptr;
  idle_scope* previous = nullptr;

 protected:
  // A span of the scope has become empty.
  void note_idle();
  // The scope, which has no scopes inside, is listed no more.
  void forget_idle();
  // An idle scope inside this one, which is listed no more; null: there is none. It may end at any time, and its structure
  // be another scope's: then that one's empty spans go.
  idle_scope* take_idle_inside();

 private:
  void unlist();

  idle_scope* inside_ = nullptr;        // the first one that this scope lists
  std::atomic<bool> is_listed_{false};  // written under the lock
};

}  // namespace tarn
