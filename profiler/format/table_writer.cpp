// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "profiler/format/chunk.hpp"
#include "profiler/format/chunk_packer.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

namespace {

// False with errno where not all of it could be written.
bool write_to(int file, const byte_vector& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t size = ::write(file, bytes.data() + done, bytes.size() - done);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    done += static_cast<std::size_t>(size);
  }
  return true;
}

// Whether the file is what a writer leaves that is killed before take_place(): nothing, or the beginning of a profile.
bool is_left_over(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat about = {};
  std::array<std::uint8_t, file_magic.size()> bytes{};
  const bool is_regular = file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  const bool is_profile = is_regular &&
                          pread(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()) &&
                          bytes == file_magic;
  if (file >= 0) close(file);
  return is_profile || (is_regular && about.st_size == 0);
}

}  // namespace

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
    : path_(path), packer_(std::make_unique<chunk_packer>()) {
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
    throw profile_error("nothing can be added to the profile " + path_ + ": " + found.damage_words() +
                        "; record the program again: tarn profile -- PROGRAM");
  }
  file_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0)
    throw profile_error("nothing can be added to the profile " + path_ + ": " + std::strerror(errno) +
                        "; give yourself the right to write it, or copy it");
  bytes_ = found.good_bytes;
}

void table_writer::begin(start how) {
  const bool fresh = how == start::fresh;
  file_ = open_for_writing(path_, fresh ? O_EXCL : O_TRUNC);
  if (file_ < 0 && fresh && errno == EEXIST)
    throw file_exists("the profile " + path_ + " exists already; name another file: -o FILE");
  if (file_ < 0) {
    throw file_not_opened("the profile " + path_ + " cannot be created: " + std::strerror(errno) +
                          "; name a file in a folder that you may write to");
  }
  byte_vector header(file_header_bytes);
  std::copy(file_magic.begin(), file_magic.end(), header.begin());
  put_number(header.data() + 8, format_major);
  put_number(header.data() + 10, format_minor);
  if (!write_to(file_, header)) {
    const int error = errno;
    close(std::exchange(file_, -1));
    throw profile_error("the profile " + path_ + " cannot be written: " + std::strerror(error) +
                        "; make room, or name another file: -o FILE");
  }
  bytes_ = header.size();
}

table_writer::~table_writer() {
  if (file_ >= 0) close(file_);
  if (!replaced_.empty()) unlink(path_.c_str());
}

std::unique_ptr<table_writer> table_writer::beside() const {
  struct stat mine = {}, there = {};
  std::error_code error;
  const std::string real = std::filesystem::canonical(path_, error);
  if (error || fstat(file_, &mine) != 0 || stat(real.c_str(), &there) != 0 || !S_ISREG(mine.st_mode) ||
      mine.st_nlink != 1 || mine.st_ino != there.st_ino || mine.st_dev != there.st_dev)
    return nullptr;
  const std::string name = real + ".tarn-new";
  if (is_left_over(name)) unlink(name.c_str());
  try {
    auto made = std::make_unique<table_writer>(name, start::fresh);
    made->replaced_ = real;
    made->shown_ = path_;
    const bool is_alike =
        fchown(made->file_, mine.st_uid, mine.st_gid) == 0 && fchmod(made->file_, mine.st_mode & 07777U) == 0;
    return is_alike ? std::move(made) : nullptr;
  } catch (const file_not_opened&) {
    return nullptr;
  } catch (const profile_error&) {
    unlink(name.c_str());
    return nullptr;
  }
}

void table_writer::take_place() {
  // Without waiting for the disk: ext4 and btrfs have the bytes there before the new name counts, and a busy disk takes tenths
  // of a second, for which the recorded program would wait.
  begin_sync();
  if (rename(path_.c_str(), replaced_.c_str()) != 0) {
    throw profile_error("the profile " + shown_ + " cannot be written anew: " + std::strerror(errno) +
                        "; what it holds until here can be read");
  }
  path_ = std::exchange(shown_, {});
  replaced_.clear();
}

void table_writer::append_from(const table_writer& other, std::uint64_t at, std::uint64_t size) {
  const int from = open(other.path_.c_str(), O_RDONLY | O_CLOEXEC);
  auto offset = static_cast<off_t>(at);
  const auto end = static_cast<off_t>(at + size);
  bool is_good = from >= 0;
  while (is_good && offset < end) {
    const ssize_t sent = sendfile(file_, from, &offset, static_cast<std::size_t>(end - offset));
    is_good = sent > 0 || (sent < 0 && errno == EINTR);
  }
  const int error = errno;
  if (from >= 0) close(from);
  if (!is_good) throw profile_error("the profile " + path_ + " cannot be written: " + std::strerror(error));
  bytes_ += size;
}

// Only a regular file can be cut off.
void table_writer::cut(std::uint64_t bytes) noexcept {
  bytes_ = bytes;
  if (ftruncate(file_, static_cast<off_t>(bytes)) == 0) lseek(file_, static_cast<off_t>(bytes), SEEK_SET);
}

void table_writer::begin_sync() noexcept { sync_file_range(file_, 0, 0, SYNC_FILE_RANGE_WRITE); }

void table_writer::append(const table& contents) {
  packer_->clear();
  packer_->pack(contents, true);
  append(*packer_);
}

void table_writer::append(const chunk_packer& chunks) {
  if (!write_to(file_, chunks.bytes())) {
    const int error = errno;
    cut(bytes_);  // what follows begins at a chunk boundary, as every reader expects
    throw profile_error("the profile " + path_ + " cannot be written any further: " + std::strerror(error) +
                        "; what it holds until here can be read");
  }
  bytes_ += chunks.bytes().size();
}

void table_writer::append_json(std::string_view name, std::string_view json) {
  table contents{.name = std::string(name), .rows = 1};
  contents.columns.push_back({"json", texts{std::string(json)}});
  contents.replaces = true;
  append(contents);
}

}  // namespace tarn::profiler
