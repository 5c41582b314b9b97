// SPDX-License-Identifier: MIT
// In a program linked with libtarn, every form of operator new and delete is tarn's, and fails as the standard says.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "../../system_probes.hpp"
#include "base/units.hpp"
#include "override_support.hpp"
#include "tarn/malloc.h"

// Clang 16 declares the sized forms only on request.
void operator delete(void*, std::size_t) noexcept;
void operator delete[](void*, std::size_t) noexcept;
void operator delete(void*, std::size_t, std::align_val_t) noexcept;
void operator delete[](void*, std::size_t, std::align_val_t) noexcept;

namespace tarn {
namespace {

using testing_support::hidden;
using testing_support::large_size;

constexpr std::size_t impossible = std::size_t{PTRDIFF_MAX} - 4096;
constexpr std::size_t wide = 128;
constexpr auto wide_alignment = static_cast<std::align_val_t>(wide);

// Hides a pointer from the compiler, which may omit a new-expression whose result is not used.
template <class T>
T* used(T* p) {
  T* volatile v = p;
  return v;
}

std::uint64_t large_bytes() {
  tarn_stats stats;
  tarn_get_stats(&stats);
  return stats.large;
}

struct new_form {
  const char* name;
  std::size_t alignment;
  bool throws;
  void* (*give)(std::size_t);
};

const new_form new_forms[] = {
    {"new", 8, true, [](std::size_t n) { return ::operator new(n); }},
    {"new[]", 8, true, [](std::size_t n) { return ::operator new[](n); }},
    {"new, nothrow", 8, false, [](std::size_t n) { return ::operator new(n, std::nothrow); }},
    {"new[], nothrow", 8, false, [](std::size_t n) { return ::operator new[](n, std::nothrow); }},
    {"new, aligned", wide, true, [](std::size_t n) { return ::operator new(n, wide_alignment); }},
    {"new[], aligned", wide, true, [](std::size_t n) { return ::operator new[](n, wide_alignment); }},
    {"new, aligned, nothrow", wide, false,
     [](std::size_t n) { return ::operator new(n, wide_alignment, std::nothrow); }},
    {"new[], aligned, nothrow", wide, false,
     [](std::size_t n) { return ::operator new[](n, wide_alignment, std::nothrow); }},
};

struct delete_form {
  const char* name;
  void (*take)(void*, std::size_t);
};

const delete_form delete_forms[] = {
    {"delete", [](void* p, std::size_t) { ::operator delete(p); }},
    {"delete[]", [](void* p, std::size_t) { ::operator delete[](p); }},
    {"delete, sized", [](void* p, std::size_t n) { ::operator delete(p, n); }},
    {"delete[], sized", [](void* p, std::size_t n) { ::operator delete[](p, n); }},
    {"delete, nothrow", [](void* p, std::size_t) { ::operator delete(p, std::nothrow); }},
    {"delete[], nothrow", [](void* p, std::size_t) { ::operator delete[](p, std::nothrow); }},
    {"delete, aligned", [](void* p, std::size_t) { ::operator delete(p, wide_alignment); }},
    {"delete[], aligned", [](void* p, std::size_t) { ::operator delete[](p, wide_alignment); }},
    {"delete, sized, aligned", [](void* p, std::size_t n) { ::operator delete(p, n, wide_alignment); }},
    {"delete[], sized, aligned", [](void* p, std::size_t n) { ::operator delete[](p, n, wide_alignment); }},
    {"delete, aligned, nothrow",
     [](void* p, std::size_t) { ::operator delete(p, wide_alignment, std::nothrow); }},
    {"delete[], aligned, nothrow",
     [](void* p, std::size_t) { ::operator delete[](p, wide_alignment, std::nothrow); }},
};

TEST(override_new, every_new_gives_tarns_blocks) {
  for (const new_form& form : new_forms) {
    // Checked first, because tarn_usable_size must not get a block of another heap.
    const std::uint64_t before = large_bytes();
    void* const large = form.give(large_size);
    ASSERT_EQ(large_bytes(), before + large_size) << form.name << " is not tarn's";
    tarn_free(large);
    void* previous = nullptr;
    for (const std::size_t size : {0U, 1U, 16U, 100U, 1024U, 1025U, 8192U, 262144U}) {
      void* const block = form.give(size);
      ASSERT_NE(block, nullptr) << form.name << " of " << size;
      EXPECT_NE(block, previous) << form.name << " of " << size;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % form.alignment, 0U) << form.name << " of " << size;
      EXPECT_GE(tarn_usable_size(block), size) << form.name;
      tarn_free(previous);
      previous = block;
    }
    tarn_free(previous);
  }
}

TEST(override_new, every_delete_takes_tarns_blocks) {
  for (const delete_form& form : delete_forms) {
    const std::uint64_t before = large_bytes();
    void* const block = tarn_aligned_alloc(wide, large_size);
    ASSERT_EQ(large_bytes(), before + large_size);
    errno = 4711;
    form.take(block, large_size);
    EXPECT_EQ(errno, 4711) << form.name;
    EXPECT_EQ(large_bytes(), before) << form.name << " is not tarn's";
    form.take(tarn_aligned_alloc(wide, 100), 100);
    form.take(nullptr, 100);
  }
}

TEST(override_new, expressions_come_here) {
  struct alignas(256) aligned {
    char bytes[2 * mib];
  };
  struct plain {
    ~plain() {}  // makes new[] store the number of elements before the array
    char bytes[mib];
  };
  const std::uint64_t before = large_bytes();
  auto* const one = used(new aligned);
  auto* const two = used(new aligned[2]);
  auto* const three = used(new (std::nothrow) plain[3]);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(two) % 256, 0U);
  EXPECT_GE(large_bytes(), before + 9 * mib);
  const std::string text(2 * mib, 'x');
  EXPECT_GE(large_bytes(), before + 11 * mib);
  delete one;
  delete[] two;
  delete[] three;
  EXPECT_LT(large_bytes(), before + 3 * mib);
}

// ---- failure ----

int calls = 0;

struct failure {
  bool null = false;
  bool bad_alloc = false;
  bool other = false;
};

failure fail(const new_form& form, std::size_t size, std::new_handler handler) {
  failure out;
  calls = 0;
  std::set_new_handler(handler);
  try {
    void* const block = form.give(hidden(size));
    out.null = block == nullptr;
    tarn_free(block);
  } catch (const std::bad_alloc&) {
    out.bad_alloc = true;
  } catch (int) {
    out.other = true;
  }
  std::set_new_handler(nullptr);
  return out;
}

TEST(override_new, without_a_handler_it_throws_or_gives_null) {
  for (const new_form& form : new_forms) {
    for (const std::size_t size :
         {impossible, std::size_t{PTRDIFF_MAX} + 1, SIZE_MAX, std::size_t{1} << 50}) {
      const failure seen = fail(form, size, nullptr);
      EXPECT_EQ(seen.bad_alloc, form.throws) << form.name << " of " << size;
      EXPECT_EQ(seen.null, !form.throws) << form.name << " of " << size;
    }
  }
}

TEST(override_new, the_handler_is_called_until_there_is_none) {
  for (const new_form& form : new_forms) {
    const failure seen = fail(form, impossible, [] {
      if (++calls == 3) std::set_new_handler(nullptr);
    });
    EXPECT_EQ(calls, 3) << form.name;
    EXPECT_EQ(seen.bad_alloc, form.throws) << form.name;
    EXPECT_EQ(seen.null, !form.throws) << form.name;
  }
}

TEST(override_new, what_the_handler_throws_passes_or_becomes_null) {
  for (const new_form& form : new_forms) {
    const failure seen = fail(form, SIZE_MAX, [] {
      ++calls;
      throw 1;
    });
    EXPECT_EQ(calls, 1) << form.name;
    EXPECT_EQ(seen.other, form.throws) << form.name;
    EXPECT_EQ(seen.null, !form.throws) << form.name;
  }
}

rlimit old_limit{};

TEST(override_new, a_handler_that_finds_memory_makes_the_call_succeed) {
  if (!system_probes::address_space_is_limited()) GTEST_SKIP() << system_probes::no_limit;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &old_limit), 0);
  std::vector<void*> kept;
  for (const new_form& form : new_forms) {
    rlimit tight = old_limit;
    tight.rlim_cur = 64 * mib;
    ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
    const failure seen = fail(form, gib, [] {
      ++calls;
      setrlimit(RLIMIT_AS, &old_limit);
    });
    setrlimit(RLIMIT_AS, &old_limit);
    EXPECT_EQ(calls, 1) << form.name;
    EXPECT_FALSE(seen.null || seen.bad_alloc || seen.other) << form.name;
    // Keeps this form's address space in use, so that the next form has to map its own.
    kept.push_back(form.give(gib));
  }
  for (void* block : kept) tarn_free(block);
}

}  // namespace
}  // namespace tarn
