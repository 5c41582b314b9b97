// SPDX-License-Identifier: MIT
#include "samples/guarded/guarded_slot.hpp"

#include "base/compiler.hpp"
#include "os/thread_number.hpp"
#include "unwind/stack_walk.hpp"

namespace tarn {

TARN_NOINLINE void call_stack::record() {
  const unwind::frame_origin origin = unwind::here();
  count = unwind::walk(origin, frames, most);
  thread = os::thread_number();
}

}  // namespace tarn
