// SPDX-License-Identifier: MIT
#include "profiler/collect/output_files.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "os/invariant.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/format/table_file.hpp"

namespace fs = std::filesystem;

namespace tarn::profiler {

namespace {

// A child that did less than this leaves no file of its own.
constexpr double file_allocations = 10000;
constexpr double file_bytes = 16 << 20;
constexpr double file_faults = 4096;
constexpr std::size_t most_files = 200;
constexpr std::ptrdiff_t most_images = 16;  // images of one process that get a file of their own

// attach has become the user of the process that it records, who may write less than the caller expects.
std::string reason(int error) {
  return (error == EACCES ? " by user " + std::to_string(geteuid()) : "") + ": " + std::strerror(error);
}

// Whether the file can be written. False: errno says why. A look at the rights would not do: root has all, also where nobody
// can make a file, as in /proc.
bool can_write(const std::string& path) {
  const bool there = access(path.c_str(), F_OK) == 0;
  const int file = open_for_writing(path, 0);
  if (file < 0) return false;
  ::close(file);
  if (!there) unlink(path.c_str());
  return true;
}

// What a program's name is in a file's name, which has room for 255 bytes and more than this part.
std::string part_of_file_name(const std::string& program) {
  constexpr std::size_t longest = 200;
  std::string part = printable(program);
  if (part.size() <= longest) return part;
  std::size_t end = longest;
  while ((static_cast<unsigned char>(part[end]) & 0xc0U) == 0x80U) --end;  // not within a character
  part.resize(end);
  return part;
}

}  // namespace

output_files::output_files(const recording_settings& settings)
    : output_(settings.output), directory_(settings.directory) {
  if (!output_.empty()) {
    if (can_write(output_)) return;
    throw profile_error(output_ + ": cannot be written" + reason(errno) + "; name another file: -o FILE");
  }
  if (can_write(fs::path(directory_) / fmt::format(".tarn-{}", getpid()))) return;
  throw profile_error("no file can be made in " + (directory_.empty() ? "the current folder" : directory_) +
                      reason(errno) + "; name one elsewhere: -o FILE");
}

std::string output_files::name(const std::string& program, std::uint32_t process, const std::string& end,
                               int number) const {
  const fs::path given = output_;
  const std::string name =
      given.empty() ? (fs::path(directory_) / fmt::format("tarn-{}-{}", part_of_file_name(program), process))
                    : fs::path(given).replace_extension();
  return fmt::format("{}{}{}{}", name, end, number == 1 ? "" : fmt::format("-{}", number),
                     given.empty() ? ".prof" : given.extension().string());
}

bool output_files::is_taken(const std::string& path) const {
  return std::any_of(files_.begin(), files_.end(),
                     [&path](const finished_file& one) { return one.path == path; });
}

void output_files::add(finished_file file) {
  files_.push_back(std::move(file));
  if (os::is_check_due(files_.size())) validate();
}

void output_files::set_problem(const std::string& path, const std::string& problem) {
  for (finished_file& one : files_) {
    if (one.path == path) one.problem = problem;
  }
}

bool output_files::has_room_for(std::uint32_t process) const {
  const auto images = std::count_if(files_.begin(), files_.end(),
                                    [process](const finished_file& one) { return one.process == process; });
  return files_.size() < most_files && images < most_images;
}

bool output_files::is_worth_one(double allocations, double bytes, double faults) {
  return allocations >= file_allocations || bytes >= file_bytes || faults >= file_faults;
}

void output_files::validate() const {
  std::set<std::string> paths;
  for (const finished_file& one : files_) paths.insert(one.path);
  TARN_INVARIANT("output_files", this, paths.size() == files_.size());
}

}  // namespace tarn::profiler
