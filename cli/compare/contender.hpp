// SPDX-License-Identifier: MIT
// contender: an allocator, or another build of the program, that is measured, and how the list of allocators is made.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/launch/command_line.hpp"
#include "cli/launch/environment.hpp"
#include "cli/launch/program_target.hpp"

namespace tarn::cli {

struct contender {
  std::string name;
  std::string library;  // empty: the program as it is, on the system's malloc
  std::vector<std::pair<std::string, std::string>> variables = {};  // additional environment variables
  bool keeps_preloads = false;  // keep a malloc that LD_PRELOAD already names
  // Another build of the program, and its command line; empty: the program itself.
  std::string path = {};
  std::vector<std::string> words = {};
};

inline constexpr const char* system_name = "system";
inline constexpr const char* tarn_name = "tarn";

// The system's malloc, tarn, each known allocator that is installed, and those of `with` ("NAME=LIB"; replaces a
// known name). `only` keeps the named ones, in the usual order. Throws cli_error for a malformed or unknown name, a
// bad library, or if tarn is wanted and not found. `others` are further names that `only` may contain and that no
// library may have: those of what the caller compares allocators with.
std::vector<contender> choose_contenders(const std::vector<std::string>& with,
                                         const std::vector<std::string>& only,
                                         const std::vector<std::string>& others = {});

// Names of tarn and the known allocators that are installed.
std::vector<std::string> installed_mallocs();

// Whether --only names it, or was not given.
bool is_wanted(const std::string& name, const std::vector<std::string>& only);

// Declares "--malloc NAME=LIBRARY" and "--only NAME,...", whose values choose_contenders takes.
// The words of --malloc, with paths that stay right in another folder.
std::vector<std::string> with_absolute_paths(std::vector<std::string> words);
CLI::Option* add_malloc_option(command& app, std::vector<std::string>& with);
CLI::Option* add_only_option(command& app, std::vector<std::string>& only, const std::string& help);

// The environment in which the program is started under `who`. A malloc that LD_PRELOAD already names is removed
// for all contenders that do not keep it, so that "system" is the system's.
environment environment_for(const contender& who);

// This installation's copy of the allocator that another process has loaded from a file of that name; none if it is no
// known allocator. Only the name is that process's, and it only chooses from a list: no file that a process names is
// ever loaded with this process's rights.
std::optional<std::string> own_copy_of(const std::string& library);

// The libraries in LD_PRELOAD that replace malloc.
std::vector<std::string> preloaded_allocators();

// Starts this command with `words` as a worker under `who`, and returns what it prints. Throws cli_error (refused) with
// the reason when it fails or takes longer.
std::string run_worker(const contender& who, const std::vector<std::string>& words, double timeout_seconds);

// Checks that the program will use its library; for "system", returns the library that supplies
// malloc when that is not the C library. Throws cli_error.
std::optional<std::string> verify_contender(const contender& who, const program_target& target);

// The same, but false, with the reason in `notes`, if the library would have no effect; tarn must have one, and "system" be
// checked, unless it is `optional`. `notes` also gets whose malloc "system" is if not the C library's.
bool takes_effect(const contender& who, const program_target& target, std::vector<std::string>& notes,
                  bool optional = false);

// A remark for each malloc in LD_PRELOAD, which is removed from all runs.
void note_preloads(std::vector<std::string>& notes);

}  // namespace tarn::cli
