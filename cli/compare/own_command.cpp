// SPDX-License-Identifier: MIT
#include "cli/compare/own_command.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <pwd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "cli/launch/scratch_file.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

using profiler::printable;
using profiler::recorded_command;

namespace {

struct secret {
  std::uint8_t bytes[16];
};

// The user's home by the list of users: sudo may leave another user's in HOME.
std::string state_folder() {
  const char* const named = std::getenv("XDG_STATE_HOME");
  if (named != nullptr && *named == '/') return fmt::format("{}/tarn", named);
  const passwd* const user = getpwuid(geteuid());
  const char* home = user != nullptr ? user->pw_dir : std::getenv("HOME");
  return home != nullptr && *home == '/' ? fmt::format("{}/.local/state/tarn", home) : "";
}

// None: there is no key, or another user could have written it.
std::optional<secret> read_key(const std::string& path) {
  const open_file file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status = {};
  secret found = {};
  if (file.number() < 0 || fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != geteuid() || (status.st_mode & 077) != 0 || status.st_nlink > 2 ||
      status.st_size != sizeof found.bytes ||
      read(file.number(), found.bytes, sizeof found.bytes) != sizeof found.bytes)
    return std::nullopt;
  return found;
}

// The file gets its name when it is complete. If several processes make it at once, the first one's stays.
void make_key(const std::string& folder, const std::string& path) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  secret made = {};
  std::string scratch = folder + "/key-XXXXXX";
  if (getrandom(made.bytes, sizeof made.bytes, 0) != sizeof made.bytes) return;
  const open_file file(mkstemp(scratch.data()));
  if (file.number() < 0) return;
  if (write(file.number(), made.bytes, sizeof made.bytes) == sizeof made.bytes &&
      link(scratch.c_str(), path.c_str()) != 0)
    errno = 0;
  unlink(scratch.c_str());
}

std::string canonical_text(const recorded_command& command) {
  recorded_command bare = command;
  bare.seal.clear();
  const profiler::table rows = profiler::command_table(bare);
  std::string text = "tarn command 1\n";
  for (std::size_t row = 0; row < rows.rows; ++row) {
    for (const char* const column : {"key", "value"}) {
      const std::string& part = rows.text(column)[row];
      text += fmt::format("{}:{}", part.size(), part);
    }
  }
  return text;
}

std::string seal_with(const secret& key, const recorded_command& command) {
  return siphash(key.bytes, canonical_text(command));
}

std::string key_path(const std::string& folder) { return folder + "/key"; }

bool asks_at_terminal() { return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1; }

}  // namespace

std::string seal_of(const recorded_command& command) {
  const std::string folder = state_folder();
  if (folder.empty()) return "";
  std::optional<secret> key = read_key(key_path(folder));
  if (!key) {
    make_key(folder, key_path(folder));
    key = read_key(key_path(folder));
  }
  return key ? seal_with(*key, command) : "";
}

bool is_own(const recorded_command& command) {
  const std::string folder = state_folder();
  const std::optional<secret> key = folder.empty() ? std::nullopt : read_key(key_path(folder));
  return key && !command.seal.empty() && command.seal == seal_with(*key, command);
}

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char letter : printable(word)) out += letter == '\'' ? "'\\''" : std::string(1, letter);
  return out + "'";
}

std::string describe_command(const recorded_command& command) {
  std::string text = fmt::format("in {}: ", printable(command.directory));
  for (const auto& [name, value] : command.variables) text += printable(name) + "=" + quoted(value) + " ";
  text += printable(command.path);
  for (std::size_t word = 1; word < command.words.size(); ++word) text += " " + quoted(command.words[word]);
  if (command.input == profiler::input_kind::file) text += " < " + printable(command.input_path);
  return text;
}

void require_consent(const std::string& file, const std::string& what, const std::string& lines,
                     bool trusted) {
  if (trusted) return;
  const std::string problem =
      fmt::format("{}: {} would run with your rights, and is not known to be yours", file, what);
  if (!asks_at_terminal()) {
    throw cli_error(exit_code::refused, fmt::format("{}: {}", problem, lines),
                    "If you trust it: --trust-file");
  }
  print_message("tarn: {}:\n      {}\nRun it? [y/N] ", printable(problem), printable(lines));
  char answer[16] = {};
  if (std::fgets(answer, sizeof answer, stdin) != nullptr && (answer[0] == 'y' || answer[0] == 'Y')) return;
  throw cli_error(exit_code::refused, "nothing was run");
}

std::string siphash(const std::uint8_t (&key)[16], std::string_view text) {
  const auto word_at = [](const void* from) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return word;
  };
  const std::uint64_t low = word_at(key);
  const std::uint64_t high = word_at(key + 8);
  std::uint64_t v[4] = {low ^ 0x736f6d6570736575U, high ^ 0x646f72616e646f6dU ^ 0xee,
                        low ^ 0x6c7967656e657261U, high ^ 0x7465646279746573U};
  const auto rounds = [&v](int count) {
    for (; count > 0; --count) {
      v[0] += v[1], v[2] += v[3];
      v[1] = std::rotl(v[1], 13) ^ v[0], v[3] = std::rotl(v[3], 16) ^ v[2];
      v[0] = std::rotl(v[0], 32);
      v[2] += v[1], v[0] += v[3];
      v[1] = std::rotl(v[1], 17) ^ v[2], v[3] = std::rotl(v[3], 21) ^ v[0];
      v[2] = std::rotl(v[2], 32);
    }
  };
  const auto take = [&](std::uint64_t word) {
    v[3] ^= word;
    rounds(2);
    v[0] ^= word;
  };
  const std::size_t whole = text.size() / 8 * 8;
  for (std::size_t at = 0; at < whole; at += 8) take(word_at(text.data() + at));
  std::uint64_t last = std::uint64_t{text.size()} << 56;
  for (std::size_t at = whole; at < text.size(); ++at)
    last |= std::uint64_t{static_cast<unsigned char>(text[at])} << (8 * (at - whole));
  take(last);
  v[2] ^= 0xee;
  rounds(4);
  std::uint64_t out[2] = {v[0] ^ v[1] ^ v[2] ^ v[3], 0};
  v[1] ^= 0xdd;
  rounds(4);
  out[1] = v[0] ^ v[1] ^ v[2] ^ v[3];
  std::string digits;
  for (const std::uint64_t word : out)
    for (unsigned byte = 0; byte < 8; ++byte) digits += fmt::format("{:02x}", word >> (8 * byte) & 0xff);
  return digits;
}

}  // namespace tarn::cli
