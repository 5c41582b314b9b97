// SPDX-License-Identifier: MIT
// arrow_pool: Apache Arrow's memory from tarn (arrow::MemoryPool), with limits, statistics and reuse of large buffers.
//
//     tarn::arrow_pool memory;
//     arrow::compute::ExecContext context(&memory);
//     arrow::Int64Builder builder(&memory);
//
// Columns are large and short-lived: each step of a query allocates its result, and frees that of the step before. From a
// general malloc such memory is unmapped and faulted in anew. Here blocks below 64 KiB are tarn's small and medium blocks,
// larger ones stay backed by memory for the next use: in the page heap, where Reallocate() extends a block or moves its page
// tables without a copy; or, if the pool is given a tarn::buffer_pool, there (a budget of idle bytes, huge pages,
// faulting in ahead, and statistics of its own; Reallocate() copies).
//
// Use it for queries and for conversions of many columns, and where the memory of one query is to be counted or limited by
// itself. Do not use it where tarn is the program's malloc, the default pool is "system", and no figures are needed.
//
// Requires: Arrow 11 or later. Lifetime: all buffers are freed before the pool ends; what they hold when it ends stays
// allocated, and the destructor cannot tell, as with Arrow's own pools. With libtarn-api as with libtarn.
// Thread safety: any thread; a block may be freed by any thread.
// Failure: arrow::Status: OutOfMemory if there is no memory or the limit is reached; Invalid for a negative size or an
// alignment that is not a power of two. A failed call changes nothing. Free() of a pointer that is not a live block ends the
// process with a message.
// Cost: below 64 KiB some 30 instructions for a pair, and four atomic operations for the figures. Sizes are in bytes.
#pragma once

#include <arrow/memory_pool.h>
#include <arrow/status.h>
#include <arrow/util/config.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "tarn/buffer_pool.hpp"
#include "tarn/malloc.h"

#if ARROW_VERSION_MAJOR < 11
#error "arrow.hpp needs Arrow 11 or later, whose memory pools are told the alignment"
#endif

namespace tarn {

struct arrow_pool_options {
  // Where blocks of 64 KiB and more come from; null: tarn's page heap. Must outlive the pool.
  buffer_pool* large = nullptr;
  // Most bytes at a time; 0: no limit.
  std::int64_t maximum_bytes = 0;
};

class arrow_pool final : public arrow::MemoryPool {
 public:
  arrow_pool() noexcept = default;
  explicit arrow_pool(const arrow_pool_options& options) noexcept : options_(options) {}
  arrow_pool(const arrow_pool&) = delete;
  arrow_pool& operator=(const arrow_pool&) = delete;

  using arrow::MemoryPool::Allocate;
  using arrow::MemoryPool::Free;
  using arrow::MemoryPool::Reallocate;

  arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override {
    arrow::Status status = check(size, alignment);
    if (!status.ok()) return status;
    if (!charge(size)) return over_limit(size);
    std::uint8_t* const block = take(size, alignment);
    if (block == nullptr) {
      bytes_.fetch_sub(size, std::memory_order_relaxed);
      return no_memory(size);
    }
    note_allocated(size);
    *out = block;
    return status;
  }

  arrow::Status Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                           std::uint8_t** block) override {
    arrow::Status status = check(new_size, alignment);
    if (!status.ok()) return status;
    if (new_size > old_size && !charge(new_size - old_size)) return over_limit(new_size - old_size);
    std::uint8_t* const moved = resize(*block, old_size, new_size, alignment);
    if (moved == nullptr) {
      if (new_size > old_size) bytes_.fetch_sub(new_size - old_size, std::memory_order_relaxed);
      return no_memory(new_size);
    }
    if (new_size < old_size) bytes_.fetch_sub(old_size - new_size, std::memory_order_relaxed);
    // As Arrow's own pools: what the block grows by counts as an allocation.
    if (new_size > old_size) note_allocated(new_size - old_size);
    *block = moved;
    return status;
  }

  void Free(std::uint8_t* block, std::int64_t size, std::int64_t alignment) override {
    give(block, size, alignment);
    bytes_.fetch_sub(size, std::memory_order_relaxed);
  }

  // Gives idle memory back to the system: that of all of tarn.
  void ReleaseUnused() override {
    if (options_.large != nullptr) options_.large->trim();
    tarn_trim(0);
  }

  [[nodiscard]] std::int64_t bytes_allocated() const override {
    return bytes_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::int64_t max_memory() const override { return peak_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t total_bytes_allocated() const override {
    return total_bytes_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::int64_t num_allocations() const override {
    return allocations_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::string backend_name() const override { return "tarn"; }

 private:
  static constexpr std::int64_t least_large = 65536;
  // Blocks of the page heap and buffers begin at a page of tarn or of the system.
  static constexpr std::int64_t alignment_of_large = 4096;
  // Above this size tarn's blocks have spans of their own, and tarn_realloc keeps that alignment.
  static constexpr std::int64_t least_own_span = 262145;

  // What blocks of no bytes are: Arrow expects a pointer that is not null.
  static std::uint8_t* empty_block() noexcept {
    alignas(4096) static std::uint8_t block[1];
    return block;
  }
  [[nodiscard]] bool is_buffer(std::int64_t size, std::int64_t alignment) const noexcept {
    return options_.large != nullptr && size >= least_large && alignment <= alignment_of_large;
  }

  std::uint8_t* take(std::int64_t size, std::int64_t alignment) noexcept {
    const auto bytes = static_cast<std::size_t>(size);
    if (size == 0 && alignment <= alignment_of_large) return empty_block();
    if (is_buffer(size, alignment)) {
      return reinterpret_cast<std::uint8_t*>(options_.large->try_get(bytes).release());
    }
    return static_cast<std::uint8_t*>(tarn_aligned_alloc(static_cast<std::size_t>(alignment), bytes));
  }
  void give(std::uint8_t* block, std::int64_t size, std::int64_t alignment) noexcept {
    if (size == 0 && alignment <= alignment_of_large) return;
    if (is_buffer(size, alignment)) return options_.large->give_back(reinterpret_cast<std::byte*>(block));
    tarn_free(block);
  }
  // Null, and nothing is changed, when there is no memory.
  std::uint8_t* resize(std::uint8_t* block, std::int64_t old_size, std::int64_t new_size,
                       std::int64_t alignment) noexcept {
    if (old_size >= least_own_span && new_size >= least_own_span && alignment <= alignment_of_large &&
        !is_buffer(old_size, alignment)) {
      return static_cast<std::uint8_t*>(tarn_realloc(block, static_cast<std::size_t>(new_size)));
    }
    std::uint8_t* const fresh = take(new_size, alignment);
    if (fresh == nullptr) return nullptr;
    std::memcpy(fresh, block, static_cast<std::size_t>(old_size < new_size ? old_size : new_size));
    give(block, old_size, alignment);
    return fresh;
  }

  static arrow::Status check(std::int64_t size, std::int64_t alignment) {
    if (size < 0) return arrow::Status::Invalid("tarn: an allocation of a negative size, ", size);
    if (alignment <= 0 || !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
      return arrow::Status::Invalid("tarn: an alignment must be a power of two, not ", alignment);
    }
    return arrow::Status::OK();
  }
  static arrow::Status no_memory(std::int64_t size) {
    return arrow::Status::OutOfMemory("tarn: no memory for ", size, " bytes");
  }
  [[nodiscard]] arrow::Status over_limit(std::int64_t size) const {
    return arrow::Status::OutOfMemory("tarn: ", size, " more bytes exceed this pool's limit of ",
                                      options_.maximum_bytes, "; ", bytes_allocated(), " are allocated");
  }

  // Adds to the bytes at a time, unless they would exceed the limit.
  bool charge(std::int64_t size) noexcept {
    std::int64_t before = bytes_.load(std::memory_order_relaxed);
    const std::int64_t most =
        options_.maximum_bytes != 0 ? options_.maximum_bytes : std::numeric_limits<std::int64_t>::max();
    do {
      if (size > most - before) return false;
    } while (!bytes_.compare_exchange_weak(before, before + size, std::memory_order_relaxed));
    std::int64_t peak = peak_.load(std::memory_order_relaxed);
    while (peak < before + size &&
           !peak_.compare_exchange_weak(peak, before + size, std::memory_order_relaxed)) {
    }
    return true;
  }
  void note_allocated(std::int64_t size) noexcept {
    total_bytes_.fetch_add(size, std::memory_order_relaxed);
    allocations_.fetch_add(1, std::memory_order_relaxed);
  }

  arrow_pool_options options_;
  std::atomic<std::int64_t> bytes_{0};
  std::atomic<std::int64_t> peak_{0};
  std::atomic<std::int64_t> total_bytes_{0};
  std::atomic<std::int64_t> allocations_{0};
};

}  // namespace tarn
