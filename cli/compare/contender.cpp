// SPDX-License-Identifier: MIT
#include "cli/compare/contender.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "cli/launch/child_process.hpp"
#include "cli/launch/elf_file.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/launch/preload_check.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

struct known_allocator {
  const char* name;
  std::vector<const char*> stems;  // libSTEM.so, the preferred one first
  const char* package;             // in Debian and Ubuntu
};

const std::vector<known_allocator>& known_allocators() {
  static const std::vector<known_allocator> all = {
      {"jemalloc", {"jemalloc"}, "libjemalloc2"},
      {"mimalloc", {"mimalloc"}, "libmimalloc2.0"},
      {"tcmalloc", {"tcmalloc_minimal", "tcmalloc"}, "libtcmalloc-minimal4"},
  };
  return all;
}

std::vector<contender> installed_allocators() {
  std::vector<contender> found;
  const std::vector<std::string> directories = loader_directories();
  for (const known_allocator& known : known_allocators()) {
    for (const char* stem : known.stems) {
      const auto path = find_newest_library(stem, directories);
      if (!path || !is_preloadable_path(*path)) continue;
      found.push_back({known.name, *path});
      break;
    }
  }
  return found;
}

contender parse_with(const std::string& word, const std::vector<std::string>& others) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
    throw cli_error(exit_code::usage, fmt::format("--malloc {}: not of the form NAME=LIBRARY", word),
                    "For example: --malloc snmalloc=/opt/lib/libsnmallocshim.so");
  }
  const std::string name = word.substr(0, equals);
  if (std::find(others.begin(), others.end(), name) != others.end()) {
    throw cli_error(exit_code::usage, fmt::format("--malloc {}: '{}' cannot be a library's name", word, name),
                    fmt::format("'{}' is a way without an allocator; choose another name.", name));
  }
  if (profiler::printable(name) != name) {  // it is shown in tables, charts and pages
    throw cli_error(exit_code::usage,
                    fmt::format("--malloc {}: the name has characters that cannot be shown", word),
                    "Choose another name.");
  }
  if (name == system_name || name.find(',') != std::string::npos) {
    throw cli_error(exit_code::usage, fmt::format("--malloc {}: '{}' cannot be a library's name", word, name),
                    "'system' stands for the system's own malloc; choose another name, without commas.");
  }
  return {name, resolve_named_library(word.substr(equals + 1))};
}

[[noreturn]] void refuse_unknown(const std::string& name, const std::vector<std::string>& names,
                                 bool others) {
  for (const known_allocator& known : known_allocators()) {
    if (name != known.name) continue;
    throw cli_error(
        exit_code::usage, fmt::format("--only {}: {} is not installed", name, name),
        fmt::format("Install it (Debian and Ubuntu: {}), or give its path: --malloc {}=/path/to/library.so",
                    known.package, name));
  }
  const std::string near = nearest_word(name, names);
  throw cli_error(exit_code::usage,
                  fmt::format("--only {}: no {} has this name", name, others ? "way" : "allocator"),
                  near.empty() ? "Available: " + join(names, ", ") : fmt::format("Did you mean '{}'?", near));
}

}  // namespace

bool is_wanted(const std::string& name, const std::vector<std::string>& only) {
  return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
}

std::vector<std::string> with_absolute_paths(std::vector<std::string> words) {
  std::error_code error;
  for (std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || word.find('/', equals) == std::string::npos) continue;
    word.replace(equals + 1, std::string::npos,
                 std::filesystem::absolute(word.substr(equals + 1), error).string());
  }
  return words;
}

CLI::Option* add_malloc_option(command& app, std::vector<std::string>& with) {
  return app
      .option("--malloc NAME=LIBRARY", with,
              "Add an allocator, or use another file for a known one; may be repeated")
      ->allow_extra_args(false);
}

CLI::Option* add_only_option(command& app, std::vector<std::string>& only, const std::string& help) {
  return app.option("--only NAME,...", only, help)->delimiter(',')->allow_extra_args(false);
}

std::vector<contender> choose_contenders(const std::vector<std::string>& with,
                                         const std::vector<std::string>& only,
                                         const std::vector<std::string>& others) {
  std::vector<contender> all = {{system_name, ""}, {tarn_name, ""}};
  for (contender& found : installed_allocators()) all.push_back(std::move(found));
  for (const std::string& word : with) {
    contender added = parse_with(word, others);
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&added](const contender& other) { return other.name == added.name; });
    if (same != all.end()) {
      *same = std::move(added);
    } else {
      all.push_back(std::move(added));
    }
  }
  std::vector<std::string> names;
  for (const contender& one : all) names.push_back(one.name);
  names.insert(names.end(), others.begin(), others.end());
  for (const std::string& name : only) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      refuse_unknown(name, names, !others.empty());
  }
  std::erase_if(all, [&only](const contender& one) { return !is_wanted(one.name, only); });
  for (contender& one : all) {
    if (one.name == tarn_name && one.library.empty()) one.library = find_tarn_library();
  }
  return all;
}

std::vector<std::string> installed_mallocs() {
  std::vector<std::string> names;
  for (const contender& each : choose_contenders({}, {})) {
    if (!each.library.empty()) names.push_back(each.name);
  }
  return names;
}

std::optional<std::string> own_copy_of(const std::string& library) {
  const std::string name = std::filesystem::path(library).filename().string();
  std::vector<std::string> stems = {"tarn", "tarn-hardened", "tarn-jemalloc"};
  for (const known_allocator& known : known_allocators())
    stems.insert(stems.end(), known.stems.begin(), known.stems.end());
  const bool is_known = std::any_of(stems.begin(), stems.end(), [&name](const std::string& stem) {
    return name.starts_with("lib" + stem + ".so");
  });
  return is_known ? find_trusted_library(name) : std::nullopt;
}

std::vector<std::string> preloaded_allocators() {
  std::vector<std::string> found;
  const std::vector<std::string> directories = loader_directories();
  for (const std::string& entry : environment::current().preloads()) {
    bool replaces = defines_symbol(entry, "malloc");
    for (const std::string& directory : directories) {
      if (entry.find('/') != std::string::npos || replaces) break;
      replaces = defines_symbol(directory + "/" + entry, "malloc");
    }
    if (replaces) found.push_back(entry);
  }
  return found;
}

environment environment_for(const contender& who) {
  environment variables = environment::current();
  const std::vector<std::string> dropped =
      who.keeps_preloads ? std::vector<std::string>() : preloaded_allocators();
  std::vector<std::string> kept = variables.preloads();
  std::erase_if(kept, [&dropped](const std::string& entry) {
    return std::find(dropped.begin(), dropped.end(), entry) != dropped.end();
  });
  variables.set_preloads(kept);
  variables.unset("TARN_LIBRARY");
  if (!who.library.empty()) variables.prepend_preload(who.library);
  for (const auto& [name, value] : who.variables) variables.set(name, value);
  return variables;
}

std::string run_worker(const contender& who, const std::vector<std::string>& words, double timeout_seconds) {
  child_request request{.path = own_executable(), .arguments = {"tarn"}};
  request.arguments.insert(request.arguments.end(), words.begin(), words.end());
  request.variables = environment_for(who);
  captured_output result = run_captured(std::move(request), timeout_seconds);
  if (result.timed_out)
    throw cli_error(exit_code::refused, fmt::format("no answer within {:.0f} s", timeout_seconds));
  if (result.wait_status == 0) return std::move(result.output);
  std::string line = result.errors.substr(0, result.errors.find('\n'));
  if (line.starts_with("tarn: ")) line.erase(0, 6);
  throw cli_error(exit_code::refused, line.empty() ? format_exit(result.wait_status) : line);
}

std::optional<std::string> verify_contender(const contender& who, const program_target& target) {
  const environment variables = environment_for(who);
  if (!who.library.empty()) {
    require_preload_in_use(target, who.library, who.name, variables);
    return std::nullopt;
  }
  const elf_program& last = target.programs.back();
  std::optional<std::string> provider = malloc_provider(last, trace_program(last, variables));
  if (provider && !is_system_libc(*provider)) return provider;
  return std::nullopt;
}

bool takes_effect(const contender& who, const program_target& target, std::vector<std::string>& notes,
                  bool optional) {
  try {
    if (const auto other_malloc = verify_contender(who, target))
      notes.push_back(
          fmt::format("'system' is the program as it is: its malloc comes from {}", *other_malloc));
    return true;
  } catch (const cli_error& error) {
    if ((who.name == tarn_name || who.library.empty()) && !optional) throw;
    notes.push_back(fmt::format("{} left out: {}", who.name, error.what()));
    return false;
  }
}

void note_preloads(std::vector<std::string>& notes) {
  for (const std::string& library : preloaded_allocators())
    notes.push_back(fmt::format("{} in LD_PRELOAD is a malloc, too; it is removed from all runs", library));
}

}  // namespace tarn::cli
