// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
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
    throw profile_error("nothing can be added to the profile " + path_ + ": " + found.damage + " after " +
                        std::to_string(found.good_bytes) + " of " + std::to_string(found.file_bytes) +
                        " bytes; record the program again: tarn profile -- PROGRAM");
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
}

void table_writer::append(const table& contents) {
  packer_->clear();
  packer_->pack(contents, true);
  append(*packer_);
}

void table_writer::append(const chunk_packer& chunks) {
  if (!write_to(file_, chunks.bytes())) {
    const int error = errno;
    // Cuts off the incomplete part, so that what follows begins at a chunk boundary, as every reader expects. Only
    // a regular file can be cut off.
    if (ftruncate(file_, static_cast<off_t>(bytes_)) == 0) lseek(file_, static_cast<off_t>(bytes_), SEEK_SET);
    throw profile_error("the profile " + path_ + " cannot be written any further: " + std::strerror(error) +
                        "; what it holds until here can be read");
  }
  bytes_ += chunks.bytes().size();
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
