// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "profiler/format/chunk.hpp"
#include "profiler/format/column_coding.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

namespace {

constexpr const char* how_to_make = "; tarn profile -- PROGRAM makes one";

struct zstd_free {
  void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
};

class open_file {
 public:
  explicit open_file(const std::string& path)
      : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (file_ < 0) {
      const std::string hint = errno == ENOENT   ? how_to_make
                               : errno == EACCES ? "; give yourself the right to read it"
                                                 : "; check the path";
      throw profile_error("the profile " + path + " cannot be opened: " + std::strerror(errno) + hint);
    }
    struct stat about;
    if (fstat(file_, &about) != 0 || !S_ISREG(about.st_mode)) {
      close(file_);
      throw profile_error(path + " is not a regular file; copy the profile to a file first");
    }
    size_ = static_cast<std::uint64_t>(about.st_size);
  }
  ~open_file() { close(file_); }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;

  std::uint64_t size() const noexcept { return size_; }

  // False: the file ends earlier, as it was truncated while it was read.
  bool read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
    while (!bytes.empty()) {
      const ssize_t size = pread(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (size < 0 && errno == EINTR) continue;
      if (size < 0)
        throw profile_error("the profile " + path_ + " cannot be read: " + std::strerror(errno) +
                            "; read a copy of it");
      if (size == 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(size));
      offset += static_cast<std::uint64_t>(size);
    }
    return true;
  }

 private:
  std::string path_;
  int file_;
  std::uint64_t size_ = 0;
};

// As systemd-coredump keeps core files.
bool is_packed(const std::array<std::uint8_t, file_header_bytes>& bytes) {
  constexpr std::string_view magics[] = {"\x28\xb5\x2f\xfd", "\x1f\x8b",
                                         "\xfd"
                                         "7zXZ",
                                         "\x04\x22\x4d\x18"};
  return std::any_of(std::begin(magics), std::end(magics), [&bytes](std::string_view magic) {
    return std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  });
}

void check_file_header(const open_file& file, const std::string& path) {
  std::array<std::uint8_t, file_header_bytes> bytes{};
  if (file.size() == 0) {
    throw profile_error("the profile " + path +
                        " is empty: the profiler was stopped before it wrote anything" + how_to_make);
  }
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), bytes.size()));
  if (!file.read_at(0, std::span(bytes).first(size)) || size < bytes.size() ||
      !std::equal(file_magic.begin(), file_magic.end(), bytes.begin())) {
    if (is_packed(bytes)) {
      throw profile_error(
          path +
          " is packed (zstd, gzip, xz or lz4); unpack it, or take a core file out by coredumpctl dump "
          "-o FILE PID");
    }
    const std::string_view begin(reinterpret_cast<const char*>(bytes.data()), size);
    if (begin.starts_with("heap profile:"))
      throw profile_error(path +
                          " is a heap profile as text, of gperftools or of Go with debug=1; make what tarn "
                          "reads: go tool pprof -proto PROGRAM FILE");
    if (begin.starts_with("heap_v2/"))
      throw profile_error(path + " is a heap profile of jemalloc, which its jeprof reads" + how_to_make);
    throw profile_error(path + " is not a profile of tarn" + how_to_make);
  }
  const auto major = get_number<std::uint16_t>(bytes.data() + 8);
  const auto minor = get_number<std::uint16_t>(bytes.data() + 10);
  if (major != format_major) {
    throw profile_error("the profile " + path + " is of format " + std::to_string(major) + "." +
                        std::to_string(minor) + ", and this tarn reads " + std::to_string(format_major) +
                        ".x; read it with the version that wrote it, or make a new one");
  }
}

// One pass over the chunks. Each step returns what is wrong, in a few words, or nothing.
class chunk_reader {
 public:
  chunk_reader(const open_file& file, const std::function<void(table&&)>& take,
               const std::function<bool(std::string_view)>& wanted, const parts_taker& parts)
      : file_(file), take_(take), wanted_(wanted), parts_(parts), zstd_(ZSTD_createDCtx()) {
    if (!zstd_) throw profile_error("no memory to read a profile; raise the limit on memory: ulimit -v");
  }

  read_outcome run() {
    at_ = file_header_bytes;
    read_outcome outcome{.good_bytes = at_, .file_bytes = file_.size()};
    while (at_ < file_.size() && outcome.damage.empty()) {
      outcome.damage = next();
      outcome.ends_early = outcome.damage == cut_off;
      if (!outcome.damage.empty()) break;
      ++outcome.chunks;
      if (!unfinished_) outcome.good_bytes = at_;
    }
    if (outcome.damage.empty() && unfinished_) {
      outcome.damage = "the file ends within a table";
      outcome.ends_early = true;
    }
    return outcome;
  }

 private:
  // The chunk's header, its name, and where its payload begins.
  std::string read_header(std::uint64_t at, chunk_header& header, std::string& name,
                          std::uint64_t& payload) const {
    std::array<std::uint8_t, chunk_header_bytes + most_name_bytes> bytes;
    const std::uint64_t left = file_.size() - at;
    if (left < chunk_header_bytes) return cut_off;
    const auto known = static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size()));
    if (!file_.read_at(at, std::span(bytes).first(known))) return cut_off;
    if (!unpack_header(bytes.data(), header)) return "no chunk begins where one should";
    if (known < chunk_header_bytes + header.name_bytes) return cut_off;
    name.assign(reinterpret_cast<const char*>(bytes.data()) + chunk_header_bytes, header.name_bytes);
    if (check_of_header(bytes.data(), name) != header.check) return "a chunk's header is damaged";
    if (header.unpacked > most_encoded_bytes || header.stored > header.unpacked)
      return "a chunk announces more than one may hold";
    payload = at + chunk_header_bytes + header.name_bytes;
    return file_.size() - payload < header.stored ? cut_off : "";
  }

  // Rows of the table whose first chunk has this header, as the headers of its chunks announce them.
  std::size_t rows_from(chunk_header header, std::uint64_t payload) const {
    std::size_t rows = header.rows;
    std::string name;
    while ((header.flags & unfinished_flag) != 0 &&
           read_header(payload + header.stored, header, name, payload).empty())
      rows += header.rows;
    return rows;
  }

  std::string next() {
    chunk_header header;
    std::string name;
    std::uint64_t payload = 0;
    if (std::string wrong = read_header(at_, header, name, payload); !wrong.empty()) return wrong;
    if (unfinished_ && (unfinished_->name != name)) return "a table's end is missing";
    if (wanted_ && !wanted_(name)) {
      at_ = payload + header.stored;
      return {};
    }
    return take_chunk(header, name, payload);
  }

  std::string take_chunk(const chunk_header& header, const std::string& name, std::uint64_t payload) {
    // Memory for the payload is limited by the file's size, which was checked above.
    packed_.resize(header.stored);
    if (!file_.read_at(payload, packed_)) return cut_off;
    if (static_cast<std::uint32_t>(crc32(0, packed_.data(), static_cast<uInt>(packed_.size()))) !=
        header.payload_check) {
      return "a chunk of table '" + name + "' is damaged";
    }
    std::string malformed = "a chunk of table '" + name + "' is malformed";
    std::span<const std::uint8_t> plain = packed_;
    if ((header.flags & stored_flag) == 0) {
      plain_.resize(header.unpacked);
      const std::size_t size =
          ZSTD_decompressDCtx(zstd_.get(), plain_.data(), plain_.size(), packed_.data(), packed_.size());
      if (ZSTD_isError(size) != 0 || size != header.unpacked) return malformed;
      plain = plain_;
    }
    table contents{.name = name, .rows = header.rows, .replaces = (header.flags & replaces_flag) != 0};
    if (!decode(plain, contents)) return malformed;
    at_ = payload + header.stored;
    if (name == parts_.table) return deliver_part(std::move(contents), header, payload);
    return deliver(std::move(contents), (header.flags & unfinished_flag) != 0);
  }

  static bool decode(std::span<const std::uint8_t> bytes, table& contents) {
    std::uint64_t count = 0;
    if (!read_varint(bytes, count) || count > most_columns) return false;
    std::size_t budget = most_chunk_bytes;
    for (std::uint64_t index = 0; index < count; ++index) {
      column one;
      const decode_result result = decode_column(bytes, contents.rows, budget, one);
      if (result == decode_result::damaged) return false;
      if (result == decode_result::done) contents.columns.push_back(std::move(one));
    }
    return bytes.empty();
  }

  std::string deliver(table&& contents, bool unfinished) {
    if (unfinished_) {
      unfinished_bytes_ += memory_of(contents);
      if (unfinished_bytes_ > most_table_bytes) return "a table is larger than one may be";
      if (!add_rows(*unfinished_, std::move(contents))) return "a table's chunks do not fit together";
    } else {
      unfinished_bytes_ = unfinished ? memory_of(contents) : 0;
      unfinished_ = std::move(contents);
    }
    if (unfinished) return {};
    table whole = *std::exchange(unfinished_, std::nullopt);
    // Releases the buffers (`= {}` would keep their memory), as the receiver makes something as large from the table.
    packed_ = byte_vector();
    plain_ = byte_vector();
    take_(std::move(whole));
    return {};
  }

  std::string deliver_part(table&& contents, const chunk_header& header, std::uint64_t payload) {
    const bool begins = !unfinished_;
    const bool ends = (header.flags & unfinished_flag) == 0;
    if (!begins && !have_same_columns(*unfinished_, contents)) return "a table's chunks do not fit together";
    unfinished_bytes_ = (begins ? 0 : unfinished_bytes_) + memory_of(contents);
    if (unfinished_bytes_ > most_table_bytes) return "a table is larger than one may be";
    // No more rows than a table may hold, whatever the headers announce.
    const std::size_t row_bytes = number_bytes * std::max<std::size_t>(1, contents.columns.size());
    const std::size_t all_rows =
        begins ? std::min(rows_from(header, payload), most_table_bytes / row_bytes) : 0;
    unfinished_.reset();
    if (!ends) unfinished_ = empty_like(contents);
    parts_.take({std::move(contents), all_rows, begins, ends});
    return {};
  }

  static constexpr const char* cut_off = "the file ends too early";

  const open_file& file_;
  const std::function<void(table&&)>& take_;
  const std::function<bool(std::string_view)>& wanted_;
  const parts_taker& parts_;
  std::unique_ptr<ZSTD_DCtx, zstd_free> zstd_;
  std::uint64_t at_ = 0;
  byte_vector packed_;
  byte_vector plain_;
  // Chunks that count only with those that follow; of a table that is taken in parts the columns without rows.
  std::optional<table> unfinished_;
  std::size_t unfinished_bytes_ = 0;
};

}  // namespace

std::string read_outcome::damage_words() const {
  if (damage.empty()) return {};
  return damage + " after " + std::to_string(good_bytes) + " of " + std::to_string(file_bytes) + " bytes";
}

read_outcome read_tables(const std::string& path, const std::function<void(table&&)>& take,
                         const std::function<bool(std::string_view name)>& wanted, const parts_taker& parts) {
  const open_file file(path);
  check_file_header(file, path);
  return chunk_reader(file, take, wanted, parts).run();
}

}  // namespace tarn::profiler
