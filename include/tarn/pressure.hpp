// SPDX-License-Identifier: MIT
// on_pressure: calls a function of the program while memory is above the soft limit, so that it can drop caches.
//
//   auto registration = tarn::on_pressure([&](const tarn_pressure& now) { cache.shrink_by(now.excess); });
//
// Requires: the library's malloc, or a program whose memory is mostly in pools, arenas and buffers of tarn.
// Thread safety: any thread. The function runs in a thread of the library, never inside malloc and under no lock of
// tarn; it may take the program's locks, allocate, free, and end its own registration. It must not throw.
// Failure: is_active() is false where no thread can be started (option background off, the hardened library, a seccomp
// filter); then call tarn_get_pressure() from time to time.
// Cost: one allocation for each registration, and a sleeping thread. Nothing on allocations below the soft limit.
// Do not use it to free what the program needs: it is for what can be computed or read again. Do not end a registration
// while holding a lock that its function takes. (docs/tutorials/below-the-limit.md)
#pragma once

#include "tarn/detail/abi.hpp"

#include <memory>
#include <type_traits>
#include <utility>

#include "tarn/malloc.h"

namespace tarn {
inline namespace TARN_ABI {

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

}  // namespace TARN_ABI
}  // namespace tarn
