// SPDX-License-Identifier: MIT
// preload_check: asks the program's own dynamic loader what it would load, and concludes whose malloc the program
// would call. So it is known, not guessed, that the program will use the library.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/launch/environment.hpp"
#include "cli/launch/program_target.hpp"

namespace tarn::cli {

struct loader_trace {
  std::vector<std::string> objects;  // paths in the order in which symbols are looked up
  std::vector<std::string> missing;  // libraries that the program needs and that were not found
  std::string complaints;            // what the loader wrote to stderr
};

// The text that the loader writes under LD_TRACE_LOADED_OBJECTS.
loader_trace parse_loader_trace(const std::string& output, const std::string& errors);

// Runs the loader on the program without starting it. Throws cli_error when it gives no answer.
loader_trace trace_program(const elf_program& program, const environment& variables);

// The file that supplies malloc: the program itself, or the first object in the order that defines
// it; nullopt if none does.
std::optional<std::string> malloc_provider(const elf_program& program, const loader_trace& trace);

// The file with the run time of a sanitizer that replaces malloc (Address, Leak, Memory or Thread; not
// UndefinedBehavior): the program itself or one of its libraries; nullopt if there is none.
std::optional<std::string> sanitizer_runtime(const elf_program& program, const loader_trace& trace);

// Throws cli_error unless each program of `target` would take malloc from `library`, the first entry of LD_PRELOAD
// in `variables`. `name` is the library's name in messages.
void require_preload_in_use(const program_target& target, const std::string& library, const std::string& name,
                            const environment& variables);

// The library from which the first program of `target` that has one takes its malloc; nullopt: all use the C library's.
std::optional<std::string> other_malloc(const program_target& target, const environment& variables);

// "NAME brings mi_malloc: " and `effect`; "": the program in `file` brings no malloc under another name.
std::string note_of_own_malloc(const std::string& file, const std::string& name, const std::string& effect);

bool is_system_libc(const std::string& path);

}  // namespace tarn::cli
