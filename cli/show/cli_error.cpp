// SPDX-License-Identifier: MIT
#include "cli/show/cli_error.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>

#include "cli/show/json_output.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

const char* advice_for(int error) {
  switch (error) {
    case EMFILE: return "Raise the limit on open files: ulimit -n 1024";
    case ENFILE: return "Too many files are open on this system: end programs, or raise sysctl fs.file-max.";
    case EAGAIN:
      return "Raise the limit on processes (ulimit -u, the control group's pids.max), or end some.";
    case ENOMEM:
      return "Raise the limit on memory (ulimit -v, the control group's memory.max), or end programs.";
    default: return "What works on this system: tarn doctor";
  }
}

}  // namespace

resource_error::resource_error(const std::string& problem, int error)
    : cli_error(exit_code::refused, fmt::format("{}: {}", problem, std::strerror(error)), advice_for(error)) {
}

cli_error no_such_process(const std::string& process) {
  return {exit_code::refused, fmt::format("process {} has ended, or does not exist", process),
          "List the processes: ps -e"};
}

cli_error as_cli_error(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return resource_error("no memory for this", ENOMEM);
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return {exit_code::refused, fmt::format("{}: {}", file->path1().string(), file->code().message()),
            "Check the path and the rights to it."};
  }
  const std::string text = error.what();
  const std::size_t split = text.rfind("; ");
  if (split == std::string::npos) return {exit_code::refused, text};
  std::string advice = text.substr(split + 2);
  // A sentence, unless it names a command or an option to type.
  if (!advice.starts_with("tarn "))
    advice[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(advice[0])));
  if (advice.find(": ") == std::string::npos) advice += '.';
  return {exit_code::refused, text.substr(0, split), advice};
}

void write_message(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void print_error(const cli_error& error, bool json) {
  if (json) {
    const nlohmann::json object = {{"error",
                                    {{"problem", profiler::printable(error.what())},
                                     {"advice", profiler::printable(error.advice())},
                                     {"exit_code", error.code()}}}};
    print_message("{}\n", json_text(object));
    return;
  }
  const std::size_t width = terminal_width(STDERR_FILENO);
  const std::string problem = fmt::format("tarn: {}", profiler::printable(error.what()));
  print_message("{}\n", fold(problem, width));
  if (!error.advice().empty())
    print_message("{}\n", fold(fmt::format("      {}", profiler::printable(error.advice())), width));
}

void print_note(const std::string& text) {
  const std::string note = fmt::format("tarn: {}", profiler::printable(text));
  print_message("{}\n", fold(note, terminal_width(STDERR_FILENO)));
}

}  // namespace tarn::cli
