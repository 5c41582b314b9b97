// SPDX-License-Identifier: MIT
#include "cli/launch/preload_check.hpp"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "cli/launch/child_process.hpp"
#include "cli/launch/elf_file.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

// The loader answers in milliseconds; a slow network file system may take seconds.
constexpr double loader_timeout_seconds = 20;

bool same_file(const std::string& left, const std::string& right) {
  std::error_code error;
  return left == right || fs::equivalent(left, right, error);
}

// What the loader takes $ORIGIN from: for a program that the kernel starts, the file to which links lead.
std::string path_for_loader(const elf_program& program) {
  if (!program.by_kernel) return program.path;
  std::error_code error;
  const std::string file = fs::canonical(program.path, error).string();
  return error ? fs::absolute(program.path, error).string() : file;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

loader_trace parse_loader_trace(const std::string& output, const std::string& errors) {
  // "\tlibm.so.6 => /lib/libm.so.6 (0x…)", "\t/lib/libx.so (0x…)", "\tliby.so => not found".
  loader_trace trace;
  trace.complaints = errors;
  std::istringstream lines(output);
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos) continue;
    line.erase(0, begin);
    const std::size_t arrow = line.find(" => ");
    std::string path = arrow == std::string::npos ? line : line.substr(arrow + 4);
    if (path.starts_with("not found")) {
      trace.missing.push_back(line.substr(0, arrow));
      continue;
    }
    const std::size_t address = path.rfind(" (0x");
    if (address == std::string::npos) continue;
    path.erase(address);
    // The vDSO has no file.
    if (path.find('/') != std::string::npos) trace.objects.push_back(path);
  }
  return trace;
}

loader_trace trace_program(const elf_program& program, const environment& variables) {
  child_request request{.path = program.interpreter, .arguments = {program.interpreter}};
  request.arguments.insert(request.arguments.end(), program.loader_words.begin(), program.loader_words.end());
  request.arguments.push_back(path_for_loader(program));
  request.variables = variables;
  for (const char* name : {"LD_DEBUG", "LD_WARN", "LD_BIND_NOW", "LD_VERBOSE", "LD_SHOW_AUXV"}) {
    request.variables.unset(name);
  }
  request.variables.set("LD_TRACE_LOADED_OBJECTS", "1");
  const captured_output answer = run_captured(std::move(request), loader_timeout_seconds);
  if (answer.timed_out || !WIFEXITED(answer.wait_status) || WEXITSTATUS(answer.wait_status) != 0) {
    const std::string why = answer.timed_out ? "no answer in time" : format_exit(answer.wait_status);
    throw cli_error(exit_code::refused,
                    fmt::format("the dynamic loader {} cannot load {}: {}", program.interpreter, program.path,
                                answer.errors.empty() ? why : first_line(answer.errors)),
                    "Check whether the program starts without tarn.");
  }
  return parse_loader_trace(answer.output, answer.errors);
}

std::optional<std::string> malloc_provider(const elf_program& program, const loader_trace& trace) {
  if (defines_symbol(program.path, "malloc")) return program.path;
  for (const std::string& object : trace.objects) {
    if (defines_symbol(object, "malloc")) return object;
  }
  return std::nullopt;
}

std::optional<std::string> sanitizer_runtime(const elf_program& program, const loader_trace& trace) {
  // Every sanitizer's allocator exports this function, also if it is linked statically.
  constexpr const char* of_their_allocators = "__sanitizer_get_allocated_size";
  if (defines_symbol(program.path, of_their_allocators)) return program.path;
  for (const std::string& object : trace.objects) {
    if (defines_symbol(object, of_their_allocators)) return object;
  }
  return std::nullopt;
}

void require_preload_in_use(const program_target& target, const std::string& library, const std::string& name,
                            const environment& variables) {
  for (const elf_program& program : target.programs) {
    const loader_trace trace = trace_program(program, variables);
    if (!trace.missing.empty()) {
      throw cli_error(exit_code::refused,
                      fmt::format("{} cannot start: it needs {}", program.path, join(trace.missing, ", ")),
                      "Install these libraries, or set LD_LIBRARY_PATH.");
    }
    const bool loaded =
        std::any_of(trace.objects.begin(), trace.objects.end(),
                    [&library](const std::string& object) { return same_file(object, library); });
    if (!loaded) {
      const std::string words = first_line(trace.complaints);
      throw cli_error(exit_code::refused,
                      fmt::format("the dynamic loader does not load {} ({}) into {}{}{}", name, library,
                                  program.path, words.empty() ? "" : ": ", words),
                      "Check that the library is readable and was built for this C library.");
    }
    if (const std::optional<std::string> runtime = sanitizer_runtime(program, trace)) {
      throw cli_error(
          exit_code::refused,
          fmt::format("{} is built with a sanitizer ({}), which cannot work when another malloc is preloaded",
                      program.path, *runtime),
          "Run it as it is, or build it without the sanitizer.");
    }
    const std::optional<std::string> provider = malloc_provider(program, trace);
    if (provider && same_file(*provider, library)) continue;
    if (provider && same_file(*provider, program.path)) {
      throw cli_error(exit_code::refused,
                      fmt::format("{} contains its own malloc, which takes precedence over a preloaded one",
                                  program.path),
                      "Build it without its own allocator, or link it with tarn.");
    }
    throw cli_error(exit_code::refused,
                    fmt::format("{} would take malloc from {}, not from {}", program.path,
                                provider.value_or("nowhere"), library),
                    "Check that this library replaces malloc.");
  }
}

std::optional<std::string> other_malloc(const program_target& target, const environment& variables) {
  for (const elf_program& program : target.programs) {
    std::optional<std::string> provider = malloc_provider(program, trace_program(program, variables));
    if (provider && !is_system_libc(*provider)) return provider;
  }
  return std::nullopt;
}

std::string note_of_own_malloc(const std::string& file, const std::string& name, const std::string& effect) {
  const std::string function = prefixed_malloc_of(file);
  return function.empty() ? "" : fmt::format("{} brings {}: {}", name, function, effect);
}

bool is_system_libc(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return name == "libc.so.6" || (name.starts_with("libc-") && name.ends_with(".so"));
}

}  // namespace tarn::cli
