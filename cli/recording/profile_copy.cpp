// SPDX-License-Identifier: MIT
#include "cli/recording/profile_copy.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "cli/compare/own_command.hpp"
#include "profiler/analyze/symbols.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/model/recorded_command.hpp"
#include "profiler/model/store_profile.hpp"

namespace tarn::cli {

namespace {

constexpr int most_copies = 1000;
constexpr std::uint64_t most_copy_bytes = std::uint64_t{4} << 30;

// The file that is to be copied, by a name that means this open file and no other.
class source {
 public:
  explicit source(int file) : path_(fmt::format("/proc/self/fd/{}", file)) {
    if (fstat(file, &status_) != 0 || !S_ISREG(status_.st_mode))
      throw profiler::profile_error("the recording's file is no file; its tarn may be of another version");
    // That it is a profile is known before a file is made.
    profiler::read_tables(
        path_, [](profiler::table&&) {}, [](std::string_view) { return false; });
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool is(const std::string& other) const {
    struct stat theirs = {};
    return stat(other.c_str(), &theirs) == 0 && theirs.st_dev == status_.st_dev &&
           theirs.st_ino == status_.st_ino;
  }
  // A command that this user did not record stays behind, as the copy is to belong to this user.
  [[nodiscard]] bool has_own_command() const {
    const auto command = profiler::load_command(path_);
    return command && is_own(*command);
  }

 private:
  std::string path_;
  struct stat status_ = {};
};

// Creates the copy's file. `path`: its name; if empty, it is set to a new name.
std::unique_ptr<profiler::table_writer> open_copy(const source& from, pid_t program, std::string& path) {
  if (!path.empty() && from.is(path))
    throw profiler::profile_error(path + " is the file of the recording itself; name another file: -o FILE");
  if (!path.empty()) return std::make_unique<profiler::table_writer>(path);
  for (int number = 1;; ++number) {
    path = fmt::format("tarn-{}-dump-{}.prof", program, number);
    try {
      return std::make_unique<profiler::table_writer>(path, profiler::table_writer::start::fresh);
    } catch (const profiler::file_exists&) {
      if (number == most_copies) throw;
    }
  }
}

void copy_tables(const source& from, profiler::table_writer& out) {
  const bool with_command = from.has_own_command();
  const profiler::read_outcome outcome = profiler::read_tables(
      from.path(),
      [&out](profiler::table&& one) {
        out.append(one);
        if (out.bytes() > most_copy_bytes)
          throw profiler::profile_error("the recording's file is longer than 4 GiB; copy it yourself");
      },
      [with_command](std::string_view name) { return with_command || name != "command"; });
  // The recording goes on, so the last chunk may be there in part.
  if (!outcome.damage.empty() && !outcome.ends_early) {
    throw profiler::profile_error(
        fmt::format("the recording's file is damaged: {}; record the program again", outcome.damage_words()));
  }
}

}  // namespace

std::string copy_profile(int from, pid_t program, const std::string& to, const peer& of) {
  const source profile(from);
  std::string path = to;
  const std::unique_ptr<profiler::table_writer> out = open_copy(profile, program, path);
  try {
    copy_tables(profile, *out);
    profiler::profile named = profiler::load_profile(path);
    become(of);  // what is opened from here on is named by the profile
    profiler::symbol_settings at_hand;
    at_hand.ask_servers = false;  // the program waits while the collector waits
    profiler::add_symbols(named, at_hand);
    profiler::store_symbols(*out, named);
  } catch (...) {
    if (to.empty()) unlink(path.c_str());
    throw;
  }
  return path;
}

}  // namespace tarn::cli
