// SPDX-License-Identifier: MIT
// The whole process: statistics of all typed pools, recyclers and buffer pools; trim(), which gives the idle memory of
// all of tarn back to the system; the hook for pools that are destroyed while objects are live; the heap profile; and
// on_pressure(), which calls the program while memory is above the soft limit.
//
// Use it for monitoring, tests and tuning. Do not call it on hot paths: every function takes locks.
// Thread safety: every function may be called by any thread. While other threads allocate, the figures of one result
// may be of slightly different moments. Units: bytes where a name says so, else counts.
#pragma once

#include "tarn/detail/abi.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tarn/malloc.h"
#include "tarn/pool.h"

namespace tarn {
TARN_NAMESPACE_BEGIN

namespace detail {

// What visit(function, context) passes to function(context, arguments…), made into elements of a vector. Throws
// std::bad_alloc. The visit itself must not allocate, as it must not throw; so there is room for what begins meanwhile.
template <class Element, class... Arguments>
std::vector<Element> visited(void (*visit)(void (*)(void*, Arguments...), void*) noexcept) {
  std::vector<Element> all;
  std::size_t count = 0;
  visit([](void* context, Arguments...) { ++*static_cast<std::size_t*>(context); }, &count);
  all.reserve(count + 64);
  visit(
      [](void* context, Arguments... arguments) {
        auto& out = *static_cast<std::vector<Element>*>(context);
        if (out.size() == out.capacity()) return;
        if constexpr (std::is_constructible_v<Element, Arguments...>) {
          out.emplace_back(arguments...);
        } else {
          (out.push_back(*arguments), ...);
        }
      },
      &all);
  return all;
}

}  // namespace detail

// The statistics of one pool, recycler or buffer pool.
template <class Stats>
struct named_stats {
  std::string name;  // of its options, or the type's name as the compiler writes it; empty without memory
  Stats stats;

  // Does not throw, because it is called in a visit.
  named_stats(const char* text, const Stats* figures) noexcept : stats(*figures) {
#if defined(__cpp_exceptions)
    try {
      name = text;
    } catch (...) {
    }
#else
    name = text;
#endif
  }
};

using named_pool_stats = named_stats<tarn_pool_stats>;
using named_recycler_stats = named_stats<tarn_recycler_stats>;
using named_buffer_pool_stats = named_stats<tarn_buffer_stats>;

// All typed pools, in no particular order. Throws std::bad_alloc. Cost: some locks per pool.
inline std::vector<named_pool_stats> pools() { return detail::visited<named_pool_stats>(tarn_pool_visit); }
// All recyclers, in no particular order. Throws std::bad_alloc. Cost: some microseconds per recycler.
inline std::vector<named_recycler_stats> recyclers() {
  return detail::visited<named_recycler_stats>(tarn_recycler_visit);
}
// All buffer pools, in no particular order. Throws std::bad_alloc. Cost: a lock per pool.
inline std::vector<named_buffer_pool_stats> buffer_pools() {
  return detail::visited<named_buffer_pool_stats>(tarn_buffer_visit);
}

// Gives the idle memory of malloc, of typed pools, of recyclers and of buffer pools back to the system, except `keep`
// bytes of free pages. Returns the bytes given back. Cost: a system call per free range.
inline std::size_t trim(std::size_t keep = 0) noexcept { return tarn_trim(keep); }

// Sets the function that is called when a typed pool is destroyed while objects of it are live, with the pool's name
// and their number. Null: the default, which writes one line to stderr; for a pool of static storage duration only when
// the process has run all static destructors, and only if objects are still live: objects that are destroyed later than
// their pool are no leak. Returns the previous hook.
inline tarn_pool_leak_hook set_leak_hook(tarn_pool_leak_hook hook) noexcept {
  return tarn_pool_set_leak_hook(hook);
}

// ---- the heap profile ----

// The heap profile of the program: what malloc and operator new have allocated, and where, estimated from samples.
//
// Use it to see, in production, which places hold memory: start() once, save() when asked. The option profile
// (TARN_PROFILE=on) starts it too. Off it costs nothing; on, at the default rate, some microseconds for each 512 KiB
// that are allocated. Not for exact figures of single blocks: a place with n samples has a relative error of about
// 1 / sqrt(n). Objects of pools, recyclers, buffer pools and arenas are not in it (statistics: above).
// Thread safety: every function may be called by any thread, but not in a signal handler. Units: bytes.
namespace profile {

// Begins to sample, with `rate` bytes between two samples on average; 0: 512 KiB. False: the rate is above 1 GiB. Effect
// on all threads: at their next allocations. Cost: some microseconds.
inline bool start(std::size_t rate = 0) noexcept { return tarn_profile_start(rate) == 0; }
// Takes no further samples; what is known stays.
inline void stop() noexcept { tarn_profile_stop(); }

// Writes the profile into a new file, which only the user may read, or over an old one: for `go tool pprof`. 0, or an
// errno value: ENOMEM, or the system's, and then the file may be incomplete. Cost: as tarn_profile_write().
inline int save(const char* path) noexcept {
  const int file = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return errno;
  const int failed = tarn_profile_dump(file);
  return ::close(file) != 0 && failed == 0 ? errno : failed;
}

// The profile as a string of bytes, for a server that answers GET /debug/pprof/heap. Empty: no memory.
inline std::string text() {
  struct collected {
    std::string bytes;
    bool complete = true;
  } all;
  const int failed = tarn_profile_write(
      [](void* context, const char* data, std::size_t size) {
        auto& to = *static_cast<collected*>(context);
#if defined(__cpp_exceptions)
        try {
          to.bytes.append(data, size);
        } catch (...) {
          to.complete = false;
        }
#else
        to.bytes.append(data, size);
#endif
      },
      &all);
  return failed == 0 && all.complete ? all.bytes : std::string();
}

}  // namespace profile

// ---- memory pressure ----

// Ends the calls when it is destroyed; a call that runs has returned then. Movable; an empty one does nothing.
class pressure_registration {
 public:
  pressure_registration() = default;

  // Whether a thread makes the calls.
  [[nodiscard]] bool is_active() const noexcept { return state_ != nullptr && state_->active; }

 private:
  template <class Function>
  friend pressure_registration on_pressure(Function&& function);

  struct state {
    tarn_pressure_callback callback{};
    bool active = false;
    state() = default;
    state(const state&) = delete;
    state& operator=(const state&) = delete;
    virtual ~state() = default;
  };
  template <class Function>
  struct state_of final : state {
    Function function;
    explicit state_of(Function&& f) : function(std::move(f)) {}
    explicit state_of(const Function& f) : function(f) {}
    static void call(void* self, const tarn_pressure* now) { static_cast<state_of*>(self)->function(*now); }
  };
  struct ender {
    void operator()(state* s) const noexcept {
      tarn_off_pressure(&s->callback);
      delete s;
    }
  };

  std::unique_ptr<state, ender> state_;
};

// Calls a function of the program while memory is above the soft limit, so that it can drop caches.
//
//   auto registration = tarn::on_pressure([&](const tarn_pressure& now) { cache.shrink_by(now.excess); });
//
// Requires: the library's malloc, or a program whose memory is mostly in pools, arenas and buffers of tarn.
// Thread safety: any thread. The function runs in a thread of the library, never inside malloc and under no lock of
// tarn; it may take the program's locks, allocate and free. It must not throw, nor end its own registration.
// Failure: is_active() is false where no thread can be started (option background off, a seccomp
// filter); then call tarn_get_pressure() from time to time.
// Cost: one allocation for each registration, and a sleeping thread. Nothing on allocations below the soft limit.
// Do not use it to free what the program needs: it is for what can be computed or read again. Do not end a registration
// while holding a lock that its function takes. (docs/tutorials/below-the-limit.md)
//
// `function` is called with a tarn_pressure. Throws std::bad_alloc, and what copying or moving the function throws.
template <class Function>
[[nodiscard]] pressure_registration on_pressure(Function&& function) {
  using state_type = pressure_registration::state_of<std::decay_t<Function>>;
  auto* const made = new state_type(std::forward<Function>(function));
  made->callback = {&state_type::call, made, nullptr};
  pressure_registration result;
  result.state_.reset(made);
  made->active = tarn_on_pressure(&made->callback) != 0;
  return result;
}

TARN_NAMESPACE_END
}  // namespace tarn
