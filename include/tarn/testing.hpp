// SPDX-License-Identifier: MIT
// allocations_of, allocation_counter, allocation_limit: tests that fail if code allocates more than it may.
//
//     const auto used = tarn::allocations_of([&] { parser.parse(line); });
//     EXPECT_LE(used, (tarn::allocation_limit{.allocations = 2, .bytes = 256}));     // GoogleTest
//     CHECK(used <= tarn::allocation_limit{.allocations = 2, .bytes = 256});         // Catch2, doctest
//
// A test that fails prints both sides: "3 allocations of 384 bytes in all (64, 64, 256)" and "at most 2 allocations of
// 256 bytes in all". tarn/adapters/googletest.hpp, catch2.hpp and doctest.hpp have matchers and a budget for a scope.
//
// What is counted: each call of the calling thread that asks malloc for a block: malloc, calloc, aligned_alloc, new …,
// of realloc those that move the block, and also the calls that libraries make for it (std::string, std::format, libc).
// Bytes are those asked for; aligned requests count with the size to which the alignment rounds them up. free is not
// counted, so memory that is freed at once counts like memory that stays. Not counted are other threads' allocations,
// objects of tarn's pools, recyclers, buffer pools and arenas (tarn/process.hpp counts those), and mmap.
//
// Requires: the program's malloc is tarn's: link tarn::malloc (libtarn), or preload libtarn.so. Otherwise nothing would be
// counted, and every budget be kept; so the first count in a process tries one allocation, and throws std::logic_error if
// that is not counted (aborts with a message where exceptions are disabled). counts_are_possible() tells beforehand, for a
// test that is to be skipped: sanitizers, for example, replace malloc themselves.
// Compilers may remove a pair of new and delete that nothing observes; counts then differ between -O0 and -O2.
//
// Thread safety: a counter belongs to the thread that made it, and ends there; several threads may count at the same time. A
// coroutine must not change its thread while a counter of it lives.
// Cost: while a thread counts, each of its allocations takes malloc's slow path, about 30 ns more, and none of them is
// guarded (TARN_GUARDED). Programs and threads that do not count pay nothing: the fast path has no counter.
// Not for benchmarks: use `tarn profile`, which tells the call sites, too.
#pragma once

#include "tarn/detail/abi.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>

#include "tarn/detail/config.hpp"
#include "tarn/malloc.h"

namespace tarn {
TARN_NAMESPACE_BEGIN

// What code may allocate at most. The default allows nothing.
struct allocation_limit {
  // For .bytes: any number of them.
  static constexpr std::uint64_t any = UINT64_MAX;

  std::uint64_t allocations = 0;
  std::uint64_t bytes = any;
};

// What code has allocated.
struct allocation_count {
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;                       // in all
  std::uint64_t sizes[tarn_counted_sizes] = {};  // bytes of the first allocations, in their order

  friend bool operator==(const allocation_count& a, const allocation_count& b) noexcept {
    return a.allocations == b.allocations && a.bytes == b.bytes;
  }
  friend bool operator<=(const allocation_count& used, const allocation_limit& limit) noexcept {
    return used.allocations <= limit.allocations && used.bytes <= limit.bytes;
  }
};

namespace detail {

inline std::string counted(std::uint64_t number, const char* one, const char* several) {
  return std::to_string(number) + ' ' + (number == 1 ? one : several);
}

[[noreturn]] TARN_DETAIL_COLD inline void throw_no_counts() {
  constexpr const char* what =
      "tarn: this program's malloc is not tarn's, so no allocations can be counted: link tarn::malloc (libtarn.so or "
      "libtarn.a), or run the program with `tarn run` or LD_PRELOAD=libtarn.so; under a sanitizer skip the test";
#if defined(__cpp_exceptions)
  throw std::logic_error(what);
#else
  std::fprintf(stderr, "%s\n", what);
  std::abort();
#endif
}

}  // namespace detail

// "3 allocations of 384 bytes in all (64, 64, 256)", "no allocation"
inline std::string to_string(const allocation_count& used) {
  if (used.allocations == 0) return "no allocation";
  std::string text = detail::counted(used.allocations, "allocation", "allocations") + " of " +
                     detail::counted(used.bytes, "byte", "bytes");
  if (used.allocations == 1) return text;
  text += " in all (";
  for (std::uint64_t i = 0; i < used.allocations && i < tarn_counted_sizes; ++i) {
    text += (i != 0 ? ", " : "") + std::to_string(used.sizes[i]);
  }
  return text + (used.allocations > tarn_counted_sizes ? " ...)" : ")");
}

// "at most 2 allocations of 256 bytes in all"
inline std::string to_string(const allocation_limit& limit) {
  if (limit.allocations == 0) return "no allocation";
  std::string text = "at most ";
  if (limit.allocations == allocation_limit::any) {
    text += "any number of allocations";
  } else {
    text += detail::counted(limit.allocations, "allocation", "allocations");
  }
  if (limit.bytes != allocation_limit::any) {
    text += " of " + detail::counted(limit.bytes, "byte", "bytes") + " in all";
  }
  return text;
}

inline std::ostream& operator<<(std::ostream& out, const allocation_count& used) {
  return out << to_string(used);
}
inline std::ostream& operator<<(std::ostream& out, const allocation_limit& limit) {
  return out << to_string(limit);
}

// Whether the program's malloc is tarn's. Cost: an allocation at the first call.
inline bool counts_are_possible() noexcept {
  static const bool possible = [] {
    // Called through a volatile pointer, so that the compiler cannot remove the calls.
    void* (*volatile const allocate)(std::size_t) = std::malloc;
    void (*volatile const deallocate)(void*) = std::free;
    tarn_allocation_count count{};
    tarn_count_begin(&count);
    void* const block = allocate(40);
    tarn_count_end(&count);
    deallocate(block);
    return count.allocations == 1 && count.bytes == 40;
  }();
  return possible;
}

// Counts the calling thread's allocations from its construction on. Counters nest; each counts what inner ones count.
// Requires: counters of a thread end in the reverse order in which they began, in that thread; otherwise the process ends
// with a message.
class allocation_counter {
 public:
  // Throws std::logic_error if the program's malloc is not tarn's.
  allocation_counter() {
    if (!counts_are_possible()) detail::throw_no_counts();
    tarn_count_begin(&count_);
  }
  allocation_counter(const allocation_counter&) = delete;
  allocation_counter& operator=(const allocation_counter&) = delete;
  ~allocation_counter() { tarn_count_end(&count_); }

  // So far.
  [[nodiscard]] allocation_count used() const noexcept {
    allocation_count used{count_.allocations, count_.bytes, {}};
    for (std::size_t i = 0; i < tarn_counted_sizes; ++i) used.sizes[i] = count_.sizes[i];
    return used;
  }

 private:
  tarn_allocation_count count_{};
};

// What `code` allocates when it is called. Throws what it throws, and as allocation_counter.
template <class Code>
[[nodiscard]] allocation_count allocations_of(Code&& code) {
  const allocation_counter counter;
  std::forward<Code>(code)();
  return counter.used();
}

// The rest of a scope may allocate no more than the limit; otherwise fail(message) is called at its end. For the frameworks:
// tarn/adapters/.
template <class Fail>
class basic_allocation_budget {
 public:
  basic_allocation_budget(const allocation_limit& limit, Fail fail) : limit_(limit), fail_(std::move(fail)) {}
  basic_allocation_budget(const basic_allocation_budget&) = delete;
  basic_allocation_budget& operator=(const basic_allocation_budget&) = delete;
  // The message is made after the count, and is not part of it.
  ~basic_allocation_budget() {
    const allocation_count used = counter_.used();
    if (!(used <= limit_)) fail_(message(used));
  }

  [[nodiscard]] allocation_count used() const noexcept { return counter_.used(); }

 private:
  [[nodiscard]] std::string message(const allocation_count& used) const {
    return "this scope has made " + to_string(used) + "; allowed: " + to_string(limit_);
  }

  allocation_limit limit_;
  Fail fail_;
  allocation_counter counter_;  // last: what the other members allocate does not count
};

TARN_NAMESPACE_END
}  // namespace tarn
