// SPDX-License-Identifier: MIT
#include "cli/recording/profile_copy.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "profiler/analyze/symbols.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/model/store_profile.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

constexpr int most_numbers = 1000;

// Creates the copy's file. `path`: its name; if empty, it is set to a new name.
std::unique_ptr<profiler::table_writer> open_copy(const std::string& from, std::string& path) {
  std::error_code error;
  if (!path.empty() && fs::equivalent(path, from, error))
    throw profiler::profile_error(path + " is the file of the recording itself; name another file: -o FILE");
  if (!path.empty()) return std::make_unique<profiler::table_writer>(path);
  const fs::path source = from;
  for (int number = 1;; ++number) {
    path = fmt::format("{}-dump-{}{}", source.stem().string(), number, source.extension().string());
    try {
      return std::make_unique<profiler::table_writer>(path, profiler::table_writer::start::fresh);
    } catch (const profiler::file_exists&) {
      if (number == most_numbers) throw;
    }
  }
}

}  // namespace

std::string copy_profile(const std::string& from, const std::string& to) {
  std::string path = to;
  const std::unique_ptr<profiler::table_writer> out = open_copy(from, path);
  profiler::read_tables(from, [&](profiler::table&& one) { out->append(one); });
  profiler::profile named = profiler::load_profile(path);
  profiler::symbol_settings at_hand;
  at_hand.ask_servers = false;  // the program waits while the collector waits
  profiler::add_symbols(named, at_hand);
  profiler::store_symbols(*out, named);
  return path;
}

}  // namespace tarn::cli
