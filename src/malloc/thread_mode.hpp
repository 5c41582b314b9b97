// SPDX-License-Identifier: MIT
// thread_mode: who the calling thread is to the slow paths of malloc and free.
//
// Thread safety: any thread, about itself.
#pragma once

#include <cstdint>

#include "engine/engine.hpp"

namespace tarn {

enum class thread_mode : std::uint8_t {
  cached,     // it has a cache of its own
  processor,  // it uses the cache of the processor on which it runs
  in_scope,   // of malloc only: it has entered a scope, whatever it is otherwise
  uncached,   // it is ending, or there is no memory for a cache: spans are all that it has
};

// For a thread without a cache of its own: it gets one if it is to have one.
TARN_NOINLINE inline thread_mode attached_mode() {
  if (!engine::processor_user.in_use && engine::attach_thread() != nullptr) return thread_mode::cached;
  return engine::processor_user.in_use ? thread_mode::processor : thread_mode::uncached;
}

// Where free() puts objects, in or out of a scope.
TARN_ALWAYS_INLINE thread_mode mode_to_free() {
  return TARN_LIKELY(engine::local_cache != &engine::no_cache) ? thread_mode::cached : attached_mode();
}
// Where malloc() takes them from.
TARN_ALWAYS_INLINE thread_mode mode_to_allocate() {
  return TARN_UNLIKELY(engine::is_in_scope()) ? thread_mode::in_scope : mode_to_free();
}

}  // namespace tarn
