// SPDX-License-Identifier: MIT
// Hooks of every form of operator new and delete, in front of those of the program's C++ library or allocator. A
// call is recorded under its own kind; its inner call of malloc or of another form is not recorded a second time.
#include <atomic>

#include "profiler/record/next_operators.hpp"
#include "profiler/record/origin.hpp"
#include "profiler/record/recorder.hpp"

using namespace tarn::profiler;
using namespace tarn::profiler::recorder;

namespace {

operators known;
std::atomic<bool> looked{false};
// operators::are_short
std::atomic<bool> are_short{false};

// What the dynamic linker allocates in it, where there is no operator new, is not the program's.
void look_up_all() {
  if (real.malloc == nullptr) find_real_functions();
  const std::uint8_t before = self.busy;
  self.busy = 2;  // calling
  const operators found = look_up_operators();
  set_new_module(found.library);
  known = found;
  self.busy = before;
  looked.store(true, std::memory_order_release);                // partner of next_operators()'s acquire
  are_short.store(found.are_short, std::memory_order_release);  // partner of is_direct()'s acquire
}

const operators& next_operators() {
  // acquire: partner of the release above: known is filled; two threads may both fill it, with the same
  if (__builtin_expect(!looked.load(std::memory_order_acquire), 0) != 0) look_up_all();
  return known;
}

// Sets in_new during `forward`, so that an inner call of malloc or operator new is not recorded a second time.
template <class call>
[[gnu::always_inline]] inline void* inside_new(call forward) {
  self.in_new = 1;
  void* const block = forward();
  self.in_new = 0;
  return block;
}

// Whether an operator without an alignment may be called as it is, without inside_new().
// acquire: partner of the release in look_up_all: `known` is filled
bool is_direct(std::size_t alignment) {
  return alignment == 0 && __builtin_expect(are_short.load(std::memory_order_acquire), 1) != 0;
}

// `wanted`: wants_allocation() was asked, and said so.
template <class call>
[[gnu::noinline]] void* recorded_new_slowly(call forward, std::size_t size, std::size_t alignment,
                                            bool wanted, const call_origin& origin) {
  if (self.in_new != 0 && is_inner_call(origin.return_address, false)) return forward();
  if (!wanted && !wants_allocation(size)) return inside_new(forward);
  call_time time;
  void* const block = run_timed(wants_time(size), time, [&] { return inside_new(forward); });
  allocated(word_kind::operator_new, block, size, alignment, origin, time);
  return block;
}

template <class call>
[[gnu::always_inline]] inline void* get_new(call forward, std::size_t size, std::size_t alignment) {
  if (__builtin_expect(self.in_new != 0, 0) != 0 || !is_direct(alignment))
    return recorded_new_slowly(forward, size, alignment, false, caller());
  if (wants_allocation(size)) return recorded_new_slowly(forward, size, alignment, true, caller());
  return forward();
}

template <class call>
[[gnu::noinline]] void recorded_delete_slowly(call forward, void* block, std::uintptr_t return_address) {
  if (self.in_new != 0 && is_inner_call(return_address, false)) return forward();
  const auto inside_delete = [=] {
    self.in_new = 1;
    forward();
    self.in_new = 0;
  };
  if (is_free_of_no_interest(block)) return inside_delete();
  record_free(word_kind::operator_delete, inside_delete, block);
}

template <class call>
[[gnu::always_inline]] inline void give_new(call forward, void* block, std::size_t alignment) {
  if (block == nullptr) return forward();
  if (__builtin_expect(self.in_new != 0, 0) != 0 || !is_direct(alignment) || !is_free_of_no_interest(block))
    return recorded_delete_slowly(forward, block, return_address());
  forward();
}

}  // namespace

namespace tarn::profiler::recorder {

void look_for_operators() {
  if (!looked.load(std::memory_order_acquire) || !known.are_there) look_up_all();
}

}  // namespace tarn::profiler::recorder

#include "profiler/record/forwarded_new.hpp"
