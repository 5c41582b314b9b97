// SPDX-License-Identifier: MIT
// Hooks of every form of operator new and delete, in front of the next ones. libstdc++'s, which call malloc, are passed over
// (look_up_operators): there the call of malloc is timed.
#include "profiler/tail/tail_hooks.hpp"

using namespace tarn::profiler::tail;

namespace {

template <class call>
[[gnu::always_inline]] inline void* get_new(call forward, std::size_t size, std::size_t) {
  return timed_get(forward, size);
}
template <class call>
[[gnu::always_inline]] inline void give_new(call forward, void* block, std::size_t) {
  timed_give(forward, block);
}

}  // namespace

#include "profiler/record/forwarded_new.hpp"
