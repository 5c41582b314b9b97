// SPDX-License-Identifier: MIT
// scoped_blocks: blocks of scopes with budgets and without. Above its budget a scope refuses requests, but makes no block
// longer than it can, and each one shorter. Blocks outlive their scope, and any thread frees them.
//
// Thread safety: none; any thread may call, one at a time. The model's own memory is allocated outside of the scopes.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "arenas.hpp"
#include "model.hpp"
#include "tarn/malloc.h"
#include "tarn/scope.hpp"

namespace tarn::fuzz {

class scoped_blocks {
 public:
  explicit scoped_blocks(range_map& ranges) : blocks_(ranges) {}

  // Several calls in one of the scopes, which begins if there is none.
  void use(input& in, std::uint64_t& number) {
    place& in_use = places_[in.byte() % places_.size()];
    if (!in_use.scope.has_value()) begin(in, in_use);
    for (unsigned count = in.byte() % 24; count != 0; --count) {
      const unsigned what = in.byte() % 8;
      if (what < 4) {
        take(in, in_use, ++number);
      } else if (what < 7) {
        resize(in, in_use);
      } else {
        give(in);
      }
    }
  }
  void end(input& in) { places_[in.byte() % places_.size()].scope.reset(); }
  void give(input& in) {
    if (!blocks_.empty()) tarn_free(blocks_.take(in.below(static_cast<std::uint32_t>(blocks_.size()))).bytes);
  }
  void check() const { blocks_.check(); }
  void empty(input& in) {
    while (!blocks_.empty()) give(in);
    for (place& one : places_) one.scope.reset();
  }

 private:
  static constexpr std::size_t most_blocks = 300;
  static constexpr std::size_t most_size = std::size_t{1} << 20;
  struct place {
    std::optional<tarn::scope> scope;
    bool is_bounded = false;
  };

  static void begin(input& in, place& in_use) {
    scope_options options;
    const unsigned budget = in.byte() % 8;
    in_use.is_bounded = budget != 0;
    if (in_use.is_bounded) options.limit = (std::size_t{128} << 10) << budget % 5;
    in_use.scope.emplace("fuzz", options);
  }
  void take(input& in, const place& in_use, std::uint64_t number) {
    const unsigned form = in.byte() % 4;
    const std::size_t size = in.bytes() % most_size;
    const std::size_t alignment = form == 0 ? in.alignment() : size >= 16 ? 16 : 8;
    if (blocks_.size() == most_blocks) return;
    void* block = nullptr;
    {
      const scope_entry entry = in_use.scope->enter();
      block = form == 0   ? tarn_aligned_alloc(alignment, size)
              : form == 1 ? tarn_calloc(size, 1)
                          : tarn_malloc(size);
    }
    require(block != nullptr || in_use.is_bounded, "a scope without a budget refuses a request");
    if (block == nullptr) return;
    for (std::size_t i = 0; form == 1 && i < size; ++i)
      require(static_cast<unsigned char*>(block)[i] == 0, "calloc in a scope: not zero", block);
    blocks_.add(block, size, alignment, number);
  }
  void resize(input& in, const place& in_use) {
    if (blocks_.empty()) return;
    held one = blocks_.take(in.below(static_cast<std::uint32_t>(blocks_.size())));
    std::size_t size = std::max<std::size_t>(in.bytes() % most_size, 1);
    if (in.byte() % 2 == 0) size = std::max<std::size_t>(one.size / (1 + in.byte() % 16), 1);
    const bool is_shorter = size <= tarn_usable_size(one.bytes);
    void* moved = nullptr;
    {
      const scope_entry entry = in_use.scope->enter();
      moved = tarn_realloc(one.bytes, size);
    }
    require(moved != nullptr || (in_use.is_bounded && !is_shorter), "realloc fails", one.bytes);
    if (moved == nullptr) {
      blocks_.add(one.bytes, one.size, one.alignment, one.number);
      return;
    }
    one.bytes = static_cast<unsigned char*>(moved);
    one.check(std::min(one.size, size));
    blocks_.add(moved, size, size >= 16 ? 16 : 8, one.number);
  }

  live_set blocks_;
  std::array<place, 3> places_;
};

}  // namespace tarn::fuzz
