// SPDX-License-Identifier: MIT
#include "profiler/tail/tail_functions.hpp"

#include <atomic>

#include "profiler/record/symbol_search.hpp"
#include "unwind/frame_rule.hpp"

namespace tarn::profiler::recorder {

constinit real_functions real = {};

}  // namespace tarn::profiler::recorder

namespace tarn::profiler::tail {

namespace {

struct code_range {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  bool contains(std::uintptr_t address) const { return address >= start && address < end; }
};
code_range malloc_code;
code_range operator_code;

code_range code_around(std::uintptr_t address) {
  unwind::loaded_module module;
  if (!unwind::find_module(address, module)) return {};
  return {module.start, module.end};
}

std::atomic<bool> is_looking{false};
recorder::operators operators;
std::atomic<bool> has_operators{false};

}  // namespace

bool find_functions() {
  // relaxed: the dynamic linker calls this library's constructor before the program has threads
  if (is_looking.exchange(true, std::memory_order_relaxed)) return false;
  recorder::real_functions found = {};
  recorder::look_up_malloc(found);
  malloc_code = code_around(reinterpret_cast<std::uintptr_t>(found.malloc));
  recorder::real = found;
  return true;
}

const recorder::operators& next_operators() {
  // acquire: partner of the release below: `operators` is filled; two threads may both fill it, with the same
  if (__builtin_expect(!has_operators.load(std::memory_order_acquire), 0) != 0) {
    operators = recorder::look_up_operators();
    operator_code = code_around(operators.library);
    has_operators.store(true, std::memory_order_release);  // partner of the acquire above
  }
  return operators;
}

bool is_inner(std::uintptr_t return_address) {
  return malloc_code.contains(return_address) || operator_code.contains(return_address) ||
         recorder::is_recorders(return_address);
}

}  // namespace tarn::profiler::tail
