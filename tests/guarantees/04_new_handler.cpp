// SPDX-License-Identifier: MIT
// Line 4, C++: each form of operator new calls the new-handler until memory is available, the handler throws, or no
// handler is installed.
#include <new>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr size_t impossible = static_cast<size_t>(PTRDIFF_MAX) - 4096;
constexpr auto wide = static_cast<std::align_val_t>(64);
int handler_calls = 0;

void leave_after_three() {
  if (++handler_calls == 3) std::set_new_handler(nullptr);
}

void throw_at_second() {
  if (++handler_calls == 2) throw std::bad_alloc();
}

struct form {
  const char* name;
  bool throws;
  void* (*allocate)(size_t);
};

constexpr form forms[] = {
    {"new", true, [](size_t n) { return ::operator new(n); }},
    {"new[]", true, [](size_t n) { return ::operator new[](n); }},
    {"new, aligned", true, [](size_t n) { return ::operator new(n, wide); }},
    {"new[], aligned", true, [](size_t n) { return ::operator new[](n, wide); }},
    {"new, nothrow", false, [](size_t n) { return ::operator new(n, std::nothrow); }},
    {"new[], nothrow", false, [](size_t n) { return ::operator new[](n, std::nothrow); }},
    {"new, aligned, nothrow", false, [](size_t n) { return ::operator new(n, wide, std::nothrow); }},
    {"new[], aligned, nothrow", false, [](size_t n) { return ::operator new[](n, wide, std::nothrow); }},
};

void expect_failure(const form& f, std::new_handler handler, int calls) {
  handler_calls = 0;
  std::set_new_handler(handler);
  bool threw = false;
  void* block = nullptr;
  try {
    block = f.allocate(hide(impossible));
  } catch (const std::bad_alloc&) {
    threw = true;
  }
  std::set_new_handler(nullptr);
  TARN_CHECK(block == nullptr, "%s: succeeds with %zu bytes", f.name, impossible);
  TARN_CHECK(threw == f.throws, "%s: %s std::bad_alloc", f.name, threw ? "throws" : "does not throw");
  TARN_CHECK(handler_calls == calls, "%s: the handler is called %d times, not %d", f.name, handler_calls,
             calls);
}

// A handler that makes memory available (here: lifts the limit of address space) makes the same call succeed.
rlimit old_limit;

void raise_limit() {
  ++handler_calls;
  setrlimit(RLIMIT_AS, &old_limit);
}

int expect_recovery(const form& f) {
  handler_calls = 0;
  getrlimit(RLIMIT_AS, &old_limit);
  free(malloc(64 * mib));  // the allocator maps what it needs for its first use
  rlimit tight = old_limit;
  tight.rlim_cur = gib;
  if (setrlimit(RLIMIT_AS, &tight) != 0) skip("setrlimit(RLIMIT_AS) failed");
  std::set_new_handler(raise_limit);
  void* const block = f.allocate(hide(2 * gib));
  TARN_CHECK(block != nullptr, "%s: fails although the handler made room", f.name);
  TARN_CHECK(handler_calls == 1, "%s: the handler is called %d times, not once", f.name, handler_calls);
  free(block);
  return holds;
}

}  // namespace

int main() {
  start();
  for (const form& f : forms) {
    expect_failure(f, nullptr, 0);
    expect_failure(f, leave_after_three, 3);
    expect_failure(f, throw_at_second, 2);
  }
  need_address_space_limits();
  for (const form& f : forms) expect_good(run_in_child(20, [&f] { return expect_recovery(f); }), f.name);
  measured("%zu forms of operator new", sizeof forms / sizeof *forms);
  return holds;
}
