// SPDX-License-Identifier: MIT
// table_file: the file format of a profile: a header, then chunks. A chunk is either complete or ignored, so the
// file of a killed writer can be read up to its last complete chunk. A chunk holds one table, or a part of one:
// named columns of equal length. docs/reference/format.md has the bytes.
//
// Not thread-safe. Errors are profile_error, whose text says which file, where and what to do; a damaged file never
// makes the reader crash, hang or take more memory than `most_chunk_bytes` for a chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tarn::profiler {

class profile_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A file could not be opened for writing: what was there before is unchanged.
class file_not_opened : public profile_error {
 public:
  using profile_error::profile_error;
};
// A file that was to be created exists already.
class file_exists : public file_not_opened {
 public:
  using file_not_opened::file_not_opened;
};

inline constexpr std::uint16_t format_major = 1;  // a reader refuses any other
// A reader of a lower one skips unknown columns and tables.
inline constexpr std::uint16_t format_minor = 0;
inline constexpr std::size_t most_chunk_bytes = std::size_t{64} << 20;  // of a table's columns, unpacked
// A writer begins another chunk after this: a reader needs the memory of one chunk, besides what it makes of the rows.
inline constexpr std::size_t usual_chunk_bytes = std::size_t{8} << 20;

// The three kinds of column. Whole numbers are stored as differences from the row before where that is shorter.
using integers = std::vector<std::uint64_t>;
using reals = std::vector<double>;
using texts = std::vector<std::string>;

struct column {
  std::string name;
  std::variant<integers, reals, texts> values;
};

// Invariant (checked when it is packed): all columns have `rows` values.
struct table {
  std::string name;
  std::size_t rows = 0;
  std::vector<column> columns = {};
  // true: the table replaces all earlier ones of its name (a checkpoint); false: it continues them.
  bool replaces = false;

  // These throw profile_error if the column is not there or is of another kind.
  const integers& whole(std::string_view column_name) const;
  const reals& real(std::string_view column_name) const;
  const texts& text(std::string_view column_name) const;
  bool has(std::string_view column_name) const noexcept;
  reals take_real(std::string_view column_name);  // like real(); moves the values out of the column
};

class chunk_packer;

// Opens a file for writing and creates it, for its owner alone, where there is none. `more_flags`: O_EXCL or O_TRUNC.
// Fails with ELOOP for a symbolic link that another user has put there. Returns the descriptor, or -1 and sets errno.
int open_for_writing(const std::string& path, int more_flags);

// Appends chunks. Each append() is one write to the file, so that what was appended survives this process. A table of
// more than most_chunk_bytes takes several chunks, and one that replaces counts only when all of them are there.
class table_writer {
 public:
  enum class start : std::uint8_t { replace, fresh, go_on };
  // replace: creates the file, or replaces its content; fresh: only creates it; go_on: appends to a profile, which must
  // be whole. Throws file_exists (fresh alone), file_not_opened, profile_error.
  explicit table_writer(const std::string& path, start how = start::replace);
  ~table_writer();
  table_writer(const table_writer&) = delete;
  table_writer& operator=(const table_writer&) = delete;

  // All three throw profile_error, e.g. when the disk is full; the file stays readable.
  void append(const table& contents);
  void append(const chunk_packer& chunks);                         // of whole tables
  void append_json(std::string_view name, std::string_view json);  // a table of one row, column "json"
  // Appends whole chunks of another file, from byte `at` on.
  void append_from(const table_writer& other, std::uint64_t at, std::uint64_t size);
  // Cuts the file off behind its first `bytes`, where a chunk ends, so that what followed was never written.
  void cut(std::uint64_t bytes) noexcept;
  // Asks the kernel to write to the disk what was appended, and does not wait for it.
  void begin_sync() noexcept;
  std::uint64_t bytes() const noexcept { return bytes_; }

  // A writer that begins another file beside this one, of the same owner and rights, to take its place. Null where that
  // cannot be: the path leads to another file by now, has several names, is no regular file, or its folder refuses.
  std::unique_ptr<table_writer> beside() const;
  // Of such a writer: its file gets the other one's path, in one step. Without that the file goes when the writer does.
  // Throws profile_error.
  void take_place();

 private:
  void begin(start how);
  void go_on();

  std::string path_;
  std::string replaced_;  // by take_place(); empty: nothing
  std::string shown_;     // the path by which that is known
  int file_ = -1;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<chunk_packer> packer_;  // its buffers are reused by every append
};

// How far a file was readable.
struct read_outcome {
  std::uint64_t chunks = 0;
  std::uint64_t good_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::string damage =
      {};  // empty: the whole file; otherwise what was wrong after good_bytes, in a few words
  bool ends_early = false;  // that the file ends within a chunk or a table, as that of a killed writer does

  std::string damage_words() const;  // the damage and where it is; empty: none
};

// A part of a table that replaces: its rows in one chunk.
struct table_part {
  table rows;
  // Of the first part: the rows of all parts, as the chunks' headers announce them, but no more than a table may have.
  std::size_t all_rows = 0;
  bool begins = false;  // the first part: what earlier parts without an end have brought is void
  bool ends = false;    // the last part: the table counts
};

// Tables of one name whose receiver takes one part after the other, as a whole table may need much memory.
struct parts_taker {
  std::string_view table;
  std::function<void(table_part&&)> take;
};

// Calls `take` with each chunk's table in the file's order, and with a table that replaces when all its chunks were
// read; `wanted` may skip tables unread; tables named in `parts` go there. Throws profile_error where the file is no
// profile, or of another major version. What cannot be read at the end is in the outcome.
read_outcome read_tables(const std::string& path, const std::function<void(table&&)>& take,
                         const std::function<bool(std::string_view name)>& wanted = {},
                         const parts_taker& parts = {});

}  // namespace tarn::profiler
