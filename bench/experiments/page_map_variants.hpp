// SPDX-License-Identifier: MIT
// page_map_variants: ways to find an object's size class and span from its address, as free() must.
// Owner: page_map. Thread safety: readers take no lock, locked_hash aside; one writer.
// Invariant: addresses have 47 bits, pages 8 KiB; class 0 means "not ours".
#pragma once

#include <sys/mman.h>

#include <mutex>
#include <unordered_map>

#include "support.hpp"

namespace experiment {

inline constexpr unsigned address_bits = 47;
inline constexpr unsigned page_shift = 13;

struct alignas(64) span_header {
  std::uint8_t size_class;
};

inline std::uintptr_t page_of(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) >> page_shift;
}

// Zeroed memory of which only what is touched costs anything; nullptr if the system refuses.
template <typename item_type>
item_type* reserve(std::size_t count) {
  void* raw = mmap(nullptr, count * sizeof(item_type), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return raw == MAP_FAILED ? nullptr : static_cast<item_type*>(raw);
}

// One byte and one pointer per page of the whole address space, reserved at once.
struct flat_map {
  static constexpr const char* name = "flat, 47 bits";
  static inline std::uint8_t* classes = nullptr;
  static inline span_header** spans = nullptr;

  static bool start() {
    constexpr std::size_t pages = std::size_t{1} << (address_bits - page_shift);
    classes = reserve<std::uint8_t>(pages);
    spans = reserve<span_header*>(pages);
    return classes != nullptr && spans != nullptr;
  }
  static bool set(std::uintptr_t page, span_header* span) {
    classes[page] = span->size_class;
    spans[page] = span;
    return true;
  }
  static unsigned class_of(const void* address) { return classes[page_of(address)]; }
  static span_header* span_of(const void* address) { return spans[page_of(address)]; }
};

// Root in the program's zeroed data; leaf of 2^18 pages (2 GiB). 48 address bits.
struct two_level {
  static constexpr unsigned leaf_bits = 18;
  static constexpr std::size_t leaf_mask = (std::size_t{1} << leaf_bits) - 1;
  struct leaf {
    std::uint8_t classes[leaf_mask + 1];
    span_header* spans[leaf_mask + 1];
  };
  static inline leaf* root[std::size_t{1} << (48 - page_shift - leaf_bits)];

  static bool start() { return true; }
  static bool set(std::uintptr_t page, span_header* span) {
    leaf*& entry = root[page >> leaf_bits];
    if (entry == nullptr) entry = reserve<leaf>(1);
    if (entry == nullptr) return false;
    entry->classes[page & leaf_mask] = span->size_class;
    entry->spans[page & leaf_mask] = span;
    return true;
  }
};

// An address without a leaf is found by a test.
struct two_level_test : two_level {
  static constexpr const char* name = "two levels, test for null";
  static unsigned class_of(const void* address) {
    const std::uintptr_t page = page_of(address);
    const leaf* found = root[page >> leaf_bits];
    if (found == nullptr) [[unlikely]]
      return 0;
    return found->classes[page & leaf_mask];
  }
  static span_header* span_of(const void* address) {
    const std::uintptr_t page = page_of(address);
    return root[page >> leaf_bits]->spans[page & leaf_mask];
  }
};

// The class stands in the span's header only: one table less, one dependent load more.
struct two_level_header : two_level_test {
  static constexpr const char* name = "two levels, class in the span header";
  static unsigned class_of(const void* address) {
    const std::uintptr_t page = page_of(address);
    const leaf* found = root[page >> leaf_bits];
    if (found == nullptr) [[unlikely]]
      return 0;
    const span_header* span = found->spans[page & leaf_mask];
    return span == nullptr ? 0U : span->size_class;
  }
};

// The root holds distances from a shared empty leaf, so that a zeroed root needs neither a test nor filling.
struct two_level_distance {
  static constexpr const char* name = "two levels, distance from an empty leaf";
  using leaf = two_level::leaf;
  static inline std::ptrdiff_t root[std::size_t{1} << (48 - page_shift - two_level::leaf_bits)];
  static inline leaf empty;

  static bool start() { return true; }
  static leaf* leaf_of(std::uintptr_t page) {
    const std::uintptr_t distance = static_cast<std::uintptr_t>(root[page >> two_level::leaf_bits]);
    return reinterpret_cast<leaf*>(reinterpret_cast<std::uintptr_t>(&empty) + distance);
  }
  static bool set(std::uintptr_t page, span_header* span) {
    std::ptrdiff_t& entry = root[page >> two_level::leaf_bits];
    if (entry == 0) {
      leaf* fresh = reserve<leaf>(1);
      if (fresh == nullptr) return false;
      entry = static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(fresh) -
                                          reinterpret_cast<std::uintptr_t>(&empty));
    }
    leaf_of(page)->classes[page & two_level::leaf_mask] = span->size_class;
    leaf_of(page)->spans[page & two_level::leaf_mask] = span;
    return true;
  }
  static unsigned class_of(const void* address) {
    const std::uintptr_t page = page_of(address);
    return leaf_of(page)->classes[page & two_level::leaf_mask];
  }
  static span_header* span_of(const void* address) {
    const std::uintptr_t page = page_of(address);
    return leaf_of(page)->spans[page & two_level::leaf_mask];
  }
};

// 12 + 11 + 12 bits; every missing level is found by a test.
struct three_level {
  static constexpr const char* name = "three levels";
  static constexpr unsigned leaf_bits = 12;
  static constexpr unsigned middle_bits = 11;
  static constexpr std::size_t leaf_mask = (std::size_t{1} << leaf_bits) - 1;
  static constexpr std::size_t middle_mask = (std::size_t{1} << middle_bits) - 1;
  struct leaf {
    std::uint8_t classes[leaf_mask + 1];
    span_header* spans[leaf_mask + 1];
  };
  struct middle {
    leaf* leaves[middle_mask + 1];
  };
  static inline middle* root[std::size_t{1} << (48 - page_shift - leaf_bits - middle_bits)];

  static bool start() { return true; }
  static bool set(std::uintptr_t page, span_header* span) {
    middle*& upper = root[page >> (leaf_bits + middle_bits)];
    if (upper == nullptr) upper = reserve<middle>(1);
    if (upper == nullptr) return false;
    leaf*& entry = upper->leaves[page >> leaf_bits & middle_mask];
    if (entry == nullptr) entry = reserve<leaf>(1);
    if (entry == nullptr) return false;
    entry->classes[page & leaf_mask] = span->size_class;
    entry->spans[page & leaf_mask] = span;
    return true;
  }
  static const leaf* leaf_of(std::uintptr_t page) {
    const middle* upper = root[page >> (leaf_bits + middle_bits)];
    if (upper == nullptr) [[unlikely]]
      return nullptr;
    return upper->leaves[page >> leaf_bits & middle_mask];
  }
  static unsigned class_of(const void* address) {
    const std::uintptr_t page = page_of(address);
    const leaf* found = leaf_of(page);
    if (found == nullptr) [[unlikely]]
      return 0;
    return found->classes[page & leaf_mask];
  }
  static span_header* span_of(const void* address) {
    const std::uintptr_t page = page_of(address);
    return leaf_of(page)->spans[page & leaf_mask];
  }
};

struct locked_hash {
  static constexpr const char* name = "hash map, locked";
  static inline std::mutex lock;
  static inline std::unordered_map<std::uintptr_t, span_header*> spans;

  static bool start() { return true; }
  static bool set(std::uintptr_t page, span_header* span) {
    const std::lock_guard guard(lock);
    spans[page] = span;
    return true;
  }
  static span_header* span_of(const void* address) {
    const std::lock_guard guard(lock);
    const auto found = spans.find(page_of(address));
    return found == spans.end() ? nullptr : found->second;
  }
  static unsigned class_of(const void* address) {
    const span_header* span = span_of(address);
    return span == nullptr ? 0U : span->size_class;
  }
};

}  // namespace experiment
