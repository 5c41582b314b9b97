// SPDX-License-Identifier: MIT
// library_search: finds libtarn and the libraries of other allocators. Reads directories and the loader's
// configuration only; starts nothing. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tarn::cli {

// The path of libtarn: TARN_LIBRARY when set, else beside this executable (../lib). Throws
// cli_error when there is none, or when it is not a library for this machine.
std::string find_tarn_library();
// The path of libtarn_record, found in the same way; its variable is TARN_RECORDER.
std::string find_recorder();
// The path of libtarn_tail, in the same way; its variable is TARN_LIBRARY_TAIL.
std::string find_tail_library();

// The directories in which the loader looks: LD_LIBRARY_PATH, ld.so.conf, the built-in ones.
std::vector<std::string> loader_directories();

// The newest version of a shared library "libNAME.so[.N…]" for this machine in `directories`.
std::optional<std::string> find_newest_library(std::string_view stem,
                                               const std::vector<std::string>& directories);

// A file of that name in the folders of tarn's own libraries or of the loader. Only a file that root or this user owns
// and that nobody else can write, so that it may be preloaded with this process's rights.
std::optional<std::string> find_trusted_library(const std::string& file_name);

// A library that the user named: a path, or a file name to look up. Throws cli_error unless it is
// a shared library for this machine.
std::string resolve_named_library(const std::string& name);

// Throws cli_error, saying what is wrong, unless `path` is a loadable shared library.
void require_usable_library(const std::string& path, const std::string& named_by);

std::string own_executable();

}  // namespace tarn::cli
