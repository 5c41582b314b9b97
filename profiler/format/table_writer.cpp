// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "profiler/format/chunk.hpp"
#include "profiler/format/column_coding.hpp"
#include "profiler/format/table_file.hpp"

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

// How many rows from `first` on fit into a chunk; their bytes are added to `bytes`.
std::size_t rows_that_fit(const table& contents, std::size_t first, std::size_t& bytes) {
  const std::size_t left = contents.rows - first;
  if (!has_texts(contents)) {
    const std::size_t each = std::max<std::size_t>(number_bytes, contents.columns.size() * number_bytes);
    const std::size_t count = std::min(left, most_chunk_bytes / each);
    bytes += count * each;
    return count;
  }
  std::size_t count = 0;
  std::size_t taken = 0;
  while (count < left) {
    const std::size_t more = row_bytes(contents, first + count);
    if (taken + more > most_chunk_bytes) break;
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

struct table_writer::work_space {
  byte_vector plain;   // a chunk's columns
  byte_vector packed;  // all chunks of an append
  struct zstd_free {
    void operator()(ZSTD_CCtx* context) const noexcept { ZSTD_freeCCtx(context); }
  };
  std::unique_ptr<ZSTD_CCtx, zstd_free> zstd{ZSTD_createCCtx()};

  // Appends one chunk to `packed`.
  void pack(const table& contents, std::size_t first, std::size_t count, std::uint8_t flags) {
    plain.clear();
    append_varint(plain, contents.columns.size());
    for (const column& each : contents.columns) encode_column(each, first, count, plain);
    chunk_header header;
    header.unpacked = static_cast<std::uint32_t>(plain.size());
    header.rows = static_cast<std::uint32_t>(count);
    header.flags = flags;
    header.name_bytes = static_cast<std::uint8_t>(contents.name.size());
    const std::size_t start = packed.size();
    const std::size_t payload = start + chunk_header_bytes + contents.name.size();
    packed.resize(payload + ZSTD_compressBound(plain.size()));
    std::size_t size = ZSTD_compressCCtx(zstd.get(), packed.data() + payload, packed.size() - payload,
                                         plain.data(), plain.size(), compression_level);
    if (ZSTD_isError(size) != 0 || size >= plain.size()) {
      size = plain.size();
      std::memcpy(packed.data() + payload, plain.data(), size);
      header.flags |= stored_flag;
    }
    packed.resize(payload + size);
    header.stored = static_cast<std::uint32_t>(size);
    header.payload_check =
        static_cast<std::uint32_t>(crc32(0, packed.data() + payload, static_cast<uInt>(size)));
    const auto bytes = pack_header(header, contents.name);
    std::copy(bytes.begin(), bytes.end(), packed.begin() + static_cast<std::ptrdiff_t>(start));
    std::memcpy(packed.data() + start + chunk_header_bytes, contents.name.data(), contents.name.size());
  }

  // Writes `packed`; false with errno where not all of it could be written.
  bool write_to(int file) const {
    std::size_t done = 0;
    while (done < packed.size()) {
      const ssize_t size = ::write(file, packed.data() + done, packed.size() - done);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return false;
      done += static_cast<std::size_t>(size);
    }
    return true;
  }
};

int open_for_writing(const std::string& path, int more_flags) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | more_flags;
  const int file = open(path.c_str(), flags | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  if (file >= 0 || errno != ELOOP) return file;
  struct stat link = {};
  if (lstat(path.c_str(), &link) == 0 && link.st_uid != geteuid() && link.st_uid != 0) {
    errno = ELOOP;
    return -1;
  }
  return open(path.c_str(), flags, S_IRUSR | S_IWUSR);
}

table_writer::table_writer(const std::string& path, start how)
    : path_(path), work_(std::make_unique<work_space>()) {
  if (!work_->zstd) throw profile_error("no memory to write a profile");
  if (how == start::go_on) {
    go_on();
  } else {
    begin(how);
  }
}

void table_writer::go_on() {
  const read_outcome found = read_tables(
      path_, [](table&&) {}, [](std::string_view) { return false; });
  if (!found.damage.empty()) {
    throw profile_error("nothing can be added to the profile " + path_ + ": " + found.damage + " after " +
                        std::to_string(found.good_bytes) + " of " + std::to_string(found.file_bytes) +
                        " bytes");
  }
  file_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0)
    throw profile_error("nothing can be added to the profile " + path_ + ": " + std::strerror(errno));
  bytes_ = found.good_bytes;
}

void table_writer::begin(start how) {
  const bool fresh = how == start::fresh;
  file_ = open_for_writing(path_, fresh ? O_EXCL : O_TRUNC);
  if (file_ < 0 && fresh && errno == EEXIST) throw file_exists("the profile " + path_ + " exists already");
  if (file_ < 0) {
    throw profile_error("the profile " + path_ + " cannot be created: " + std::strerror(errno) +
                        "; name a file in a folder that you may write to");
  }
  auto& header = work_->packed;
  header.assign(file_header_bytes, 0);
  std::copy(file_magic.begin(), file_magic.end(), header.begin());
  put_number(header.data() + 8, format_major);
  put_number(header.data() + 10, format_minor);
  if (!work_->write_to(file_)) {
    const int error = errno;
    close(std::exchange(file_, -1));
    throw profile_error("the profile " + path_ + " cannot be written: " + std::strerror(error));
  }
  bytes_ = header.size();
}

table_writer::~table_writer() {
  if (file_ >= 0) close(file_);
}

void table_writer::append(const table& contents) {
  check_table(contents);
  work_->packed.clear();
  const std::uint8_t flags = contents.replaces ? replaces_flag : 0;
  std::size_t first = 0;
  std::size_t bytes = 0;
  do {
    const std::size_t count = rows_that_fit(contents, first, bytes);
    const bool goes_on = contents.replaces && first + count < contents.rows;
    if (goes_on && bytes > most_table_bytes) {
      throw profile_error("table '" + contents.name + "' is too large to be replaced as a whole");
    }
    work_->pack(contents, first, count, static_cast<std::uint8_t>(flags | (goes_on ? unfinished_flag : 0)));
    first += count;
  } while (first < contents.rows);
  if (!work_->write_to(file_)) {
    const int error = errno;
    // Cuts off the incomplete part, so that what follows begins at a chunk boundary, as every reader expects. Only
    // a regular file can be cut off.
    if (ftruncate(file_, static_cast<off_t>(bytes_)) == 0) lseek(file_, static_cast<off_t>(bytes_), SEEK_SET);
    throw profile_error("the profile " + path_ + " cannot be written any further: " + std::strerror(error) +
                        "; what it holds until here can be read");
  }
  bytes_ += work_->packed.size();
}

void table_writer::append_json(std::string_view name, std::string_view json) {
  table contents;
  contents.name = name;
  contents.rows = 1;
  contents.columns.push_back({"json", texts{std::string(json)}});
  contents.replaces = true;
  append(contents);
}

}  // namespace tarn::profiler
