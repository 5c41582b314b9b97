// SPDX-License-Identifier: MIT
#include "profiler/format/chunk_packer.hpp"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "profiler/format/chunk.hpp"

namespace tarn::profiler {

namespace {

// The fastest level: the input is varints of differences, which higher levels hardly compress better.
constexpr int compression_level = 1;

std::size_t column_rows(const column& each) {
  return std::visit([](const auto& values) { return values.size(); }, each.values);
}

void check_table(const table& contents) {
  const std::string what = "table '" + contents.name + "': ";
  if (contents.name.size() > most_name_bytes) throw profile_error(what + "its name is too long");
  if (contents.columns.size() > most_columns) throw profile_error(what + "too many columns");
  for (const column& each : contents.columns) {
    if (each.name.size() > most_name_bytes) throw profile_error(what + "a column's name is too long");
    if (column_rows(each) != contents.rows) {
      throw profile_error(what + "column '" + each.name + "' has " + std::to_string(column_rows(each)) +
                          " values for " + std::to_string(contents.rows) + " rows");
    }
  }
}

// Memory that a row takes when it is read.
std::size_t row_bytes(const table& contents, std::size_t row) {
  std::size_t bytes = 0;
  for (const column& each : contents.columns) {
    const auto* values = std::get_if<texts>(&each.values);
    bytes += values == nullptr ? number_bytes : text_bytes + (*values)[row].size();
  }
  return bytes;
}

bool has_texts(const table& contents) {
  return std::any_of(contents.columns.begin(), contents.columns.end(),
                     [](const column& each) { return std::holds_alternative<texts>(each.values); });
}

// How many rows from `first` on a chunk takes, at least one; their bytes are added to `bytes`.
std::size_t rows_that_fit(const table& contents, std::size_t first, std::size_t& bytes) {
  const std::size_t left = contents.rows - first;
  if (!has_texts(contents)) {
    const std::size_t each = std::max<std::size_t>(number_bytes, contents.columns.size() * number_bytes);
    const std::size_t count = std::min(left, usual_chunk_bytes / each);
    bytes += count * each;
    return count;
  }
  std::size_t count = 0;
  std::size_t taken = 0;
  while (count < left) {
    const std::size_t more = row_bytes(contents, first + count);
    if (taken + more > (count == 0 ? most_chunk_bytes : usual_chunk_bytes)) break;
    taken += more;
    ++count;
  }
  bytes += taken;
  if (count == 0 && left != 0) {
    throw profile_error("table '" + contents.name + "': row " + std::to_string(first) +
                        " is larger than a chunk");
  }
  return count;
}

}  // namespace

void require_table_fits(const std::string& name, std::size_t memory) {
  if (memory <= most_table_bytes) return;
  throw profile_error("table '" + name + "' is larger than a profile may hold (" +
                      std::to_string(most_table_bytes >> 20) + " MiB)");
}

void chunk_packer::zstd_free::operator()(ZSTD_CCtx_s* context) const noexcept { ZSTD_freeCCtx(context); }

chunk_packer::chunk_packer() : zstd_(ZSTD_createCCtx()) {
  if (!zstd_) throw profile_error("no memory to write a profile; raise the limit on memory: ulimit -v");
}

void chunk_packer::pack(const table& contents, bool ends) {
  check_table(contents);
  const std::uint8_t flags = contents.replaces ? replaces_flag : 0;
  std::size_t first = 0;
  do {
    const std::size_t count = rows_that_fit(contents, first, memory_);
    const bool goes_on = contents.replaces && (!ends || first + count < contents.rows);
    if (contents.replaces) require_table_fits(contents.name, memory_);
    pack_chunk(contents, first, count, static_cast<std::uint8_t>(flags | (goes_on ? unfinished_flag : 0)));
    first += count;
  } while (first < contents.rows);
  if (ends) memory_ = 0;
}

void chunk_packer::release() {
  plain_ = byte_vector();
  packed_.shrink_to_fit();
}

void chunk_packer::pack_chunk(const table& contents, std::size_t first, std::size_t count,
                              std::uint8_t flags) {
  plain_.clear();
  append_varint(plain_, contents.columns.size());
  for (const column& each : contents.columns) encode_column(each, first, count, plain_);
  chunk_header header;
  header.unpacked = static_cast<std::uint32_t>(plain_.size());
  header.rows = static_cast<std::uint32_t>(count);
  header.flags = flags;
  header.name_bytes = static_cast<std::uint8_t>(contents.name.size());
  const std::size_t start = packed_.size();
  const std::size_t payload = start + chunk_header_bytes + contents.name.size();
  packed_.resize(payload + ZSTD_compressBound(plain_.size()));
  std::size_t size = ZSTD_compressCCtx(zstd_.get(), packed_.data() + payload, packed_.size() - payload,
                                       plain_.data(), plain_.size(), compression_level);
  if (ZSTD_isError(size) != 0 || size >= plain_.size()) {
    size = plain_.size();
    std::memcpy(packed_.data() + payload, plain_.data(), size);
    header.flags |= stored_flag;
  }
  packed_.resize(payload + size);
  header.stored = static_cast<std::uint32_t>(size);
  header.payload_check =
      static_cast<std::uint32_t>(crc32(0, packed_.data() + payload, static_cast<uInt>(size)));
  const auto bytes = pack_header(header, contents.name);
  std::copy(bytes.begin(), bytes.end(), packed_.begin() + static_cast<std::ptrdiff_t>(start));
  std::memcpy(packed_.data() + start + chunk_header_bytes, contents.name.data(), contents.name.size());
}

}  // namespace tarn::profiler
