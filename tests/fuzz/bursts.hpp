// SPDX-License-Identifier: MIT
// bursts: many blocks at once: of one size, which fill magazines and depots, or of many sizes, of which few stay.
//
// Thread safety: none; any thread may call, one at a time.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "model.hpp"
#include "tarn/malloc.h"

namespace tarn::fuzz {

class bursts {
 public:
  // Allocates up to a thousand blocks of one size, or frees those of the last call, perhaps in another thread: such
  // bursts fill magazines and depots.
  void change(input& in, std::uint64_t& number) {
    if (!burst_.empty()) return free_burst();
    const std::size_t size = in.below(3000) + 1;
    for (std::size_t count = in.below(1000); count != 0; --count) {
      held one{static_cast<unsigned char*>(tarn_malloc(size)), std::min<std::size_t>(size, 32), 8, ++number};
      require(one.bytes != nullptr, "malloc fails");
      one.stamp();
      burst_.push_back(one);
    }
  }
  // Leaves one in eight of many blocks, so that their spans are sparse and serve other sizes. The next call frees these.
  void fragment(input& in) {
    free_sparse();
    std::mt19937 random(in.byte());
    for (std::size_t count = in.below(6000); count != 0; --count)
      sparse_.push_back(tarn_malloc(40 + random() % 600));
    std::shuffle(sparse_.begin(), sparse_.end(), random);
    for (const std::size_t left = sparse_.size() / 8; sparse_.size() > left; sparse_.pop_back())
      tarn_free(sparse_.back());
    tarn_trim(0);
  }

  void empty() {
    free_burst();
    free_sparse();
  }

 private:
  void free_burst() {
    for (const held& one : burst_) {
      one.check();
      tarn_free(one.bytes);
    }
    burst_.clear();
  }
  void free_sparse() {
    for (void* const block : sparse_) tarn_free(block);
    sparse_.clear();
  }

  std::vector<held> burst_;
  std::vector<void*> sparse_;
};

}  // namespace tarn::fuzz
