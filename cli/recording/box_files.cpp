// SPDX-License-Identifier: MIT
#include "cli/recording/box_files.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "cli/show/cli_error.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

constexpr std::size_t least_numbers = 2;  // of older libraries, which did not tell the namespace
constexpr std::size_t most_numbers = 4;

// The numbers in PID-TICKS-NAMESPACE.box or PID-TICKS-NAMESPACE-N.box; none: it has no such name.
std::vector<std::uint64_t> numbers_of(const fs::path& path) {
  const std::string name = path.filename();
  const char* const end = name.data() + name.size();
  std::vector<std::uint64_t> numbers;
  for (const char* at = name.data(); numbers.size() < most_numbers;) {
    const auto [last, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc()) break;
    if (std::string_view(last, static_cast<std::size_t>(end - last)) == ".box")
      return numbers.size() >= least_numbers ? numbers : std::vector<std::uint64_t>();
    if (last == end || *last != '-') break;
    at = last + 1;
  }
  return {};
}

// The same for all images of a process; where that cannot be known, each image is one.
std::string process_in(const std::string& path) {
  const std::vector<std::uint64_t> numbers = numbers_of(path);
  if (numbers.size() <= least_numbers || numbers[1] == 0 || numbers[2] == 0) return path;
  return fmt::format("{}-{}-{}", numbers[0], numbers[1], numbers[2]);
}

}  // namespace

std::string box_folder(const std::string& given) {
  std::error_code error;
  std::filesystem::create_directories(given, error);
  const std::filesystem::path folder = std::filesystem::canonical(given, error);
  constexpr std::size_t longest = 255;  // of the option black_box
  const bool is_long = folder.native().size() > longest;
  const bool is_folder = error || std::filesystem::is_directory(folder, error);
  if (error || is_long || !is_folder || access(folder.c_str(), W_OK | X_OK) != 0) {
    throw cli_error(exit_code::refused,
                    fmt::format("the folder of --black-box cannot be used: {}: {}", given,
                                error        ? error.message()
                                : is_long    ? "its name has more than 255 characters"
                                : !is_folder ? "it is not a folder"
                                             : "no right to write"),
                    "Name a folder in memory, such as /dev/shm/box.");
  }
  struct statfs where {};
  if (statfs(folder.c_str(), &where) == 0 && where.f_type != TMPFS_MAGIC && where.f_type != RAMFS_MAGIC) {
    print_note(
        fmt::format("{} is not in memory: the system writes the black box to the disk now and then", given));
  }
  return folder;
}

bool is_name_of(const std::string& path, std::uint32_t process, std::uint64_t start_ticks) {
  const std::vector<std::uint64_t> numbers = numbers_of(path);
  return !numbers.empty() && numbers[0] == process && numbers[1] == start_ticks;
}

std::vector<std::string> boxes_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (!numbers_of(entry.path()).empty()) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> outdated(const std::map<std::string, std::uint64_t>& start_by_path) {
  std::map<std::string, std::uint64_t> newest;
  for (const auto& [path, start] : start_by_path) {
    std::uint64_t& of_process = newest[process_in(path)];
    of_process = std::max(of_process, start);
  }
  std::vector<std::string> paths;
  for (const auto& [path, start] : start_by_path)
    if (start < newest[process_in(path)]) paths.push_back(path);
  return paths;
}

std::size_t count_profiles_in(const std::string& folder) {
  std::error_code error;
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder, error))
    count += entry.path().extension() == ".prof" ? 1 : 0;
  return count;
}

std::uint64_t file_number(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

box_lock::box_lock(const std::string& path)
    : file_(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
  if (file_.number() < 0) return;
  struct stat opened {};
  is_held_ = flock(file_.number(), LOCK_EX | LOCK_NB) == 0 && fstat(file_.number(), &opened) == 0 &&
             opened.st_ino == file_number(path);
}

}  // namespace tarn::cli
