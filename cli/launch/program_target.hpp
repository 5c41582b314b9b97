// SPDX-License-Identifier: MIT
// program_target: which executables a command line really starts, and why a preloaded library would not take effect
// in one of them. Follows PATH, "#!" lines (nested, and through env) and the words behind the dynamic loader to ELF
// programs. Starts nothing.
#pragma once

#include <string>
#include <vector>

#include "cli/launch/environment.hpp"

namespace tarn::cli {

struct elf_program {
  std::string path = {};
  std::string interpreter;  // of glibc
  bool by_kernel = true;    // false: the command line starts the dynamic loader, which loads `path`
  std::vector<std::string> loader_words = {};  // its options then
};

struct program_target {
  std::string path;                   // path to pass to execve
  std::vector<elf_program> programs;  // every dynamically linked program that the start passes through
};

// `words`: the command line; what follows the program matters if that is the dynamic loader. Throws cli_error: 127 not
// found, 126 not executable, 125 when a preload cannot work. Requires: at least one word.
program_target find_program(const std::vector<std::string>& words, const environment& variables);

// The executable that `name` means: itself when it holds a '/', else along PATH. Throws as above.
std::string locate_program(const std::string& name, const environment& variables);

// Empty, or why the kernel would start `path` in secure mode, where LD_PRELOAD is dropped.
std::string secure_mode_reason(const std::string& path);

}  // namespace tarn::cli
