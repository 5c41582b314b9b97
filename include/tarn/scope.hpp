// SPDX-License-Identifier: MIT
// tarn/scope.hpp: scopes: memory that is charged, bounded and ended together.
//
//     tarn::scope query{"query", {.limit = 64 << 20}};
//     {
//       auto in = query.enter();   // every malloc and new of this thread, by whatever code, is the scope's
//       run();
//     }
//     const tarn::scope_report left = query.end();   // or by the destructor
//
// What is charged, how an allocation over the limit ends, and the costs: tarn/scope.h. A task takes `query.handle()` along
// and enters by tarn::enter(handle) on whatever thread it runs. A coroutine leaves its scope before it suspends, and
// enters again where it is resumed:
//
//     auto in = query.enter();
//     co_await tarn::across(in, socket.read());
//
// Without exceptions, the process ends where one would be thrown.
// Thread safety: a scope_handle may be used by any thread; a scope_entry belongs to the thread that made it.
// Not for: see tarn/scope.h.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cerrno>
#include <coroutine>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "tarn/detail/config.hpp"
#include "tarn/detail/milliseconds.hpp"
#include "tarn/scope.h"

namespace tarn {
TARN_NAMESPACE_BEGIN

using scope_handle = tarn_scope;
using scope_report = tarn_scope_report;
using scope_stats = tarn_scope_stats;

// Stands for "part of no other scope" in scope_options::parent.
inline constexpr scope_handle process_scope_handle{nullptr, TARN_SCOPE_PROCESS_NUMBER};

// What an allocation over the limit does after the callback has been asked.
enum class over_limit : int { fail = TARN_SCOPE_FAIL, wait = TARN_SCOPE_WAIT, lend = TARN_SCOPE_LEND };

// As tarn_scope_options.
struct scope_options {
  std::size_t limit = 0;
  over_limit over = over_limit::fail;
  milliseconds wait{};  // at most, with over_limit::wait
  int (*on_full)(void* context, scope_handle scope, std::size_t bytes) = nullptr;
  void* context = nullptr;
  std::size_t keep = TARN_SCOPE_KEEP;
  bool checked = false;
  scope_handle parent{};
};

// While it exists and has not left, its thread allocates in the scope. Entries of a thread are left innermost first.
class [[nodiscard("the thread leaves the scope when the entry ends: auto in = query.enter()")]] scope_entry {
 public:
  // Throws std::bad_alloc if there is no memory for the thread's part of the scope. Ends the process if the scope has
  // ended. Cost: a few ns; the first time in each thread a lock and 5 KiB.
  explicit scope_entry(scope_handle scope) : scope_(scope) { enter(); }
  ~scope_entry() { leave(); }
  scope_entry(const scope_entry&) = delete;
  scope_entry& operator=(const scope_entry&) = delete;

  // Leaves early; has no effect the second time.
  void leave() noexcept {
    if (entry_.bin != nullptr) tarn_scope_leave(&entry_);
  }
  // Enters again, also on another thread. Requires: left. Throws std::bad_alloc.
  void enter() {
    if (tarn_scope_enter(scope_, &entry_) == 0) detail::throw_bad_alloc();
  }
  [[nodiscard]] scope_handle handle() const noexcept { return scope_; }

 private:
  scope_handle scope_;
  tarn_scope_entry entry_{nullptr, nullptr};
};

inline scope_entry enter(scope_handle scope) { return scope_entry(scope); }
// The scope that the calling thread is in; instance == nullptr: none.
[[nodiscard]] inline scope_handle current_scope() noexcept { return tarn_scope_current(); }

// A scope that ends with the object. Ending it ends the process if a thread has entered it, or a scope inside it has not
// ended.
class scope {
 public:
  // Throws std::bad_alloc, or std::invalid_argument for a limit below 128 KiB.
  explicit scope(const char* name, const scope_options& options = {}) {
    tarn_scope_options all = TARN_SCOPE_OPTIONS;
    all.limit = options.limit;
    all.over = static_cast<int>(options.over);
    all.wait_ms = options.wait.count_or_limit();
    all.on_full = options.on_full;
    all.context = options.context;
    all.keep = options.keep;
    all.checked = options.checked ? 1 : 0;
    all.parent = options.parent;
    handle_ = tarn_scope_begin(name, &all);
    if (handle_.instance != nullptr) return;
#if defined(__cpp_exceptions)
    if (errno == EINVAL) throw std::invalid_argument("tarn::scope: a limit below 128 KiB, or no name");
#endif
    detail::throw_bad_alloc();
  }
  ~scope() {
    if (handle_.instance != nullptr) tarn_scope_end(handle_, nullptr);
  }
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;

  scope_entry enter() const { return scope_entry(handle_); }
  [[nodiscard]] scope_handle handle() const noexcept { return handle_; }
  [[nodiscard]] scope_stats stats() const noexcept {
    scope_stats out{};
    tarn_scope_get_stats(handle_, &out, sizeof out);
    return out;
  }
  // Ends it now and says what is left. Requires: not ended.
  scope_report end() noexcept {
    scope_report report{};
    tarn_scope_end(std::exchange(handle_, scope_handle{}), &report);
    return report;
  }

 private:
  scope_handle handle_{};
};

// Calls visit(stats) for each name that a scope has had.
template <class Visit>
void for_each_scope(Visit visit) {
  tarn_scope_visit(
      [](void* context, const tarn_scope_stats* stats) { (*static_cast<Visit*>(context))(*stats); }, &visit);
}

namespace detail {

template <class Awaitable>
decltype(auto) awaiter_of(Awaitable&& awaitable) {
  if constexpr (requires { std::forward<Awaitable>(awaitable).operator co_await(); }) {
    return std::forward<Awaitable>(awaitable).operator co_await();
  } else if constexpr (requires { operator co_await(std::forward<Awaitable>(awaitable)); }) {
    return operator co_await(std::forward<Awaitable>(awaitable));
  } else {
    return std::forward<Awaitable>(awaitable);
  }
}

template <class Awaiter>
class scope_crossing {
 public:
  template <class Awaitable>
  scope_crossing(scope_entry& entry, Awaitable&& awaitable)
      : entry_(entry), awaiter_(awaiter_of(std::forward<Awaitable>(awaitable))) {}

  bool await_ready() { return awaiter_.await_ready(); }
  template <class Promise>
  auto await_suspend(std::coroutine_handle<Promise> waiting) {
    // Before the awaiter knows the coroutine: another thread may resume it from then on.
    entry_.leave();
    has_left_ = true;
#if defined(__cpp_exceptions)
    try {
      return awaiter_.await_suspend(waiting);
    } catch (...) {
      entry_.enter();  // the coroutine is not suspended: it goes on with the exception
      throw;
    }
#else
    return awaiter_.await_suspend(waiting);
#endif
  }
  decltype(auto) await_resume() {
    if (has_left_) entry_.enter();
    return awaiter_.await_resume();
  }

 private:
  scope_entry& entry_;
  Awaiter awaiter_;
  bool has_left_ = false;
};

}  // namespace detail

// To be awaited in place of `awaitable`: the coroutine is out of the scope while it is suspended, and in it again when it
// goes on, on whatever thread. Requires: `entry` is the innermost of the thread, and lies in the coroutine's frame.
// Throws, in the coroutine, std::bad_alloc if the thread that resumes it cannot enter.
template <class Awaitable>
auto across(scope_entry& entry, Awaitable&& awaitable) {
  using awaiter = decltype(detail::awaiter_of(std::forward<Awaitable>(awaitable)));
  using kept =
      std::conditional_t<std::is_lvalue_reference_v<Awaitable>, awaiter, std::remove_reference_t<awaiter>>;
  return detail::scope_crossing<kept>(entry, std::forward<Awaitable>(awaitable));
}

TARN_NAMESPACE_END
}  // namespace tarn
