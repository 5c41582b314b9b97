// SPDX-License-Identifier: MIT
// chunk_packer: encodes and compresses tables into chunks, which it collects in memory. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "profiler/format/column_coding.hpp"
#include "profiler/format/table_file.hpp"

struct ZSTD_CCtx_s;

namespace tarn::profiler {

// Throws profile_error if a replacing table of this much memory is more than a reader accepts.
void require_table_fits(const std::string& name, std::size_t memory);

class chunk_packer {
 public:
  chunk_packer();  // throws profile_error

  // Appends the table as chunks. `ends`: false if the next call has further rows of the same table. Throws
  // profile_error.
  void pack(const table& contents, bool ends);
  const byte_vector& bytes() const noexcept { return packed_; }
  // Releases memory that is not needed for bytes().
  void release();
  void clear() noexcept {
    packed_.clear();
    memory_ = 0;
  }

 private:
  struct zstd_free {
    void operator()(ZSTD_CCtx_s* context) const noexcept;
  };

  void pack_chunk(const table& contents, std::size_t first, std::size_t count, std::uint8_t flags);

  byte_vector plain_;  // a chunk's columns
  byte_vector packed_;
  std::size_t memory_ = 0;  // of the current table's rows, for a reader
  std::unique_ptr<ZSTD_CCtx_s, zstd_free> zstd_;
};

}  // namespace tarn::profiler
