// SPDX-License-Identifier: MIT
// operator_blocks: memory from every form of operator new, freed by every matching form of operator delete. The
// operators are tarn's in the builds that replace malloc, and the sanitizer's under AddressSanitizer.
//
// Invariant: shapes_[i] says how memory_[i] was allocated.
// Thread safety: none; any thread may call, one at a time.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "model.hpp"

namespace tarn::fuzz {

class operator_blocks {
 public:
  explicit operator_blocks(std::map<std::uintptr_t, std::uintptr_t>& ranges) : memory_(ranges) {}

  void take(input& in, std::uint64_t number) {
    const unsigned form = in.byte() % 8;
    const shape how{(form & 1) != 0, (form & 2) != 0 ? in.alignment() : 0};
    const std::size_t size = in.bytes() % most_size;
    void* const block = (form & 4) != 0 ? allocate_nothrow(how, size) : allocate(how, size);
    const std::size_t promised = how.alignment != 0 ? how.alignment : size >= 16 ? 16 : 8;
    memory_.add(block, size, promised, number);
    shapes_.push_back(how);
  }

  void give(input& in) {
    if (memory_.empty()) return;
    const std::size_t index = in.below(static_cast<std::uint32_t>(memory_.size()));
    const shape how = shapes_[index];
    const held one = memory_.take(index);
    shapes_[index] = shapes_.back();
    shapes_.pop_back();
    release(how, one, in.byte() % 3);
  }

  [[nodiscard]] std::size_t size() const { return memory_.size(); }
  [[nodiscard]] bool empty() const { return memory_.empty(); }
  void check() const { memory_.check(); }

 private:
  static constexpr std::size_t most_size = std::size_t{300} << 10;

  struct shape {
    bool array = false;
    std::size_t alignment = 0;  // 0: the forms without std::align_val_t
  };

  static void* allocate(const shape& how, std::size_t size) {
    const auto to = static_cast<std::align_val_t>(how.alignment);
    if (how.alignment == 0) return how.array ? ::operator new[](size) : ::operator new(size);
    return how.array ? ::operator new[](size, to) : ::operator new(size, to);
  }
  static void* allocate_nothrow(const shape& how, std::size_t size) {
    const auto to = static_cast<std::align_val_t>(how.alignment);
    if (how.alignment == 0) {
      return how.array ? ::operator new[](size, std::nothrow) : ::operator new(size, std::nothrow);
    }
    return how.array ? ::operator new[](size, to, std::nothrow) : ::operator new(size, to, std::nothrow);
  }

  // form: 0 plain, 1 with the size, 2 with std::nothrow (called if a constructor throws).
  static void release(const shape& how, const held& one, unsigned form) {
    if (how.array) return release_array(how, one, form);
    release_object(how, one, form);
  }
  static void release_object(const shape& how, const held& one, unsigned form) {
    const auto to = static_cast<std::align_val_t>(how.alignment);
    const bool aligned = how.alignment != 0;
    if (form == 0 && !aligned) ::operator delete(one.bytes);
    if (form == 1 && !aligned) ::operator delete(one.bytes, one.size);
    if (form == 2 && !aligned) ::operator delete(one.bytes, std::nothrow);
    if (form == 0 && aligned) ::operator delete(one.bytes, to);
    if (form == 1 && aligned) ::operator delete(one.bytes, one.size, to);
    if (form == 2 && aligned) ::operator delete(one.bytes, to, std::nothrow);
  }
  static void release_array(const shape& how, const held& one, unsigned form) {
    const auto to = static_cast<std::align_val_t>(how.alignment);
    const bool aligned = how.alignment != 0;
    if (form == 0 && !aligned) ::operator delete[](one.bytes);
    if (form == 1 && !aligned) ::operator delete[](one.bytes, one.size);
    if (form == 2 && !aligned) ::operator delete[](one.bytes, std::nothrow);
    if (form == 0 && aligned) ::operator delete[](one.bytes, to);
    if (form == 1 && aligned) ::operator delete[](one.bytes, one.size, to);
    if (form == 2 && aligned) ::operator delete[](one.bytes, to, std::nothrow);
  }

  live_set memory_;
  std::vector<shape> shapes_;
};

}  // namespace tarn::fuzz
