// SPDX-License-Identifier: MIT
// crowd: four threads that run at the same time. Each allocates blocks, hands them to the others, frees the blocks that
// it gets from them, and ends while others still run. The calling thread forks at the same time; in each child every
// block must be intact.
//
// The seed decides what the threads do, the scheduler decides when. This is the only operation that the input does not
// determine completely.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "model.hpp"
#include "tarn/malloc.h"
#include "watchdog.hpp"

namespace tarn::fuzz {

class crowd {
 public:
  crowd(std::uint64_t seed, unsigned forks) {
    std::array<std::thread, count> all;
    for (unsigned index = 0; index < count; ++index) {
      all[index] = std::thread([this, seed, index] { work(seed + index, 60U << index); });
    }
    for (; forks != 0; --forks) {
      run_in_child([this] {
        give_all_back();
        for (std::size_t size = 8; size < 100000; size *= 3) tarn_free(tarn_malloc(size));
        tarn_trim(0);
      });
    }
    for (std::thread& one : all) one.join();
    give_all_back();
  }
  crowd(const crowd&) = delete;
  crowd& operator=(const crowd&) = delete;

 private:
  static constexpr unsigned count = 4;
  struct label {  // at the start of each block
    std::size_t size;
    std::uint64_t number;
  };

  void work(std::uint64_t seed, unsigned rounds) {
    for (; rounds != 0; --rounds) {
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      const std::uint64_t random = seed >> 20;
      const std::size_t size = sizeof(label) + (std::size_t{1} << random % 16) + random % 100;
      auto* const block = static_cast<unsigned char*>(tarn_malloc(size));
      require(block != nullptr, "malloc fails in a crowd");
      const label text{size, seed};
      std::memcpy(block, &text, sizeof text);
      body(block).stamp();
      // acq_rel, its own partner: the thread that takes the block sees its label and its stamps.
      give_back(slots_[random >> 20 & (slots_.size() - 1)].exchange(block, std::memory_order_acq_rel));
    }
  }
  void give_all_back() {
    for (std::atomic<unsigned char*>& slot : slots_)
      give_back(slot.exchange(nullptr, std::memory_order_acq_rel));  // partner: the exchange in work
  }
  static void give_back(unsigned char* block) {
    if (block == nullptr) return;
    body(block).check();
    tarn_free(block);
  }
  static held body(unsigned char* block) {
    label text;
    std::memcpy(&text, block, sizeof text);
    return {block + sizeof text, text.size - sizeof text, 1, text.number};
  }

  std::array<std::atomic<unsigned char*>, 64> slots_{};
};

}  // namespace tarn::fuzz
